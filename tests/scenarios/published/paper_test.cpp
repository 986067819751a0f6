#include "scenarios/published/paper.h"

#include <cmath>

#include "tests/prelude.h"
#include "traces/format/compressed_file.h"

namespace {

// Ops a (60 us), b and c (30 us each) in a chain: 120 us on one device at speed 1. Its rows set the
// memory; b's 900 bytes of weights and a's 600 do not fit 1 kB together.
constexpr const char* trace_of_chain =
    R"({"format": "baechi-trace", "version": 1, "name": "chain", "ops": [
  {"name": "a", "compute_us": 60, "persistent_bytes": 600, "outputs": [{"bytes": 0}]},
  {"name": "b", "compute_us": 30, "persistent_bytes": 900, "outputs": [{"bytes": 0}]},
  {"name": "c", "compute_us": 30}],
  "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]})";

constexpr const char* scenario = R"(
graph: {import: chain.json}
cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s, latency: 30 us}}
placers: [single, {expert: {rules: {a: 0, b: 1, c: 0}}}]
)";

constexpr const char* paper_yaml = R"(
calibrations:
  chain: {scenario: s.yaml, placer: single, step_time: 60 us}
tables:
  steps:
    title: Step times
    unit: s
    neighbours: [0.5, 2]
    columns:
      one: {placer: single}
      two: {placer: expert}
    rows:
      - {label: measured, scenario: s.yaml, published: {one: 0.000120, two: 0.000150}}
      - {label: calibrated, scenario: s.yaml, calibration: chain, published: {one: 0.000060, two: 0.000100}}
      - {label: little memory, scenario: s.yaml, set: {cluster.devices.memory: 1 kB}, published: {one: oom, two: oom}}
      - {label: as printed, arithmetic: {samples: 3, time: 0.00002}, published: {one: 0.00005}}
)";

Paper paper_in(const std::string& folder) {
  Mistakes mistakes;
  Paper paper = load_paper(folder, mistakes);
  mistakes.throw_if_any();
  return paper;
}

struct PaperFolder {
  TemporaryFolder folder;
  explicit PaperFolder(const std::string& yaml = paper_yaml) {
    folder.write("chain.json", trace_of_chain);
    folder.write("s.yaml", scenario);
    folder.write("paper.yaml", "title: A paper\nsource: by hand\n" + yaml);
  }
  Paper load() const { return paper_in(folder.file("")); }
};

PaperResult evaluate_quietly(const Paper& paper) {
  return evaluate(paper, 2, [](const auto&, std::size_t) { return nullptr; });
}

}  // namespace

TEST_SUITE_BEGIN("paper");
TEST_CASE("cells are published beside simulated, calibrated on one number") {
  const PaperFolder here;
  const Paper paper = here.load();
  const PaperResult result = evaluate_quietly(paper);
  CHECK(result.speeds.at("chain") == doctest::Approx(2.0));  // 120 us instead of 60
  const auto& cells = result.tables.at(0).cells;
  // Two transfers of 30 us.
  CHECK(cells[0][0].ours->number == doctest::Approx(0.000120));
  CHECK(cells[0][1].ours->number == doctest::Approx(0.000180));
  CHECK(*cells[0][1].deviation() == doctest::Approx(0.2));
  // Ops twice as fast, transfers as they were.
  CHECK(cells[1][0].calibrated);
  CHECK(cells[1][1].ours->number == doctest::Approx(0.000120));
  CHECK_FALSE(cells[1][1].calibrated);
  // At half and at twice that speed: 120 and 30 us of ops, and two transfers.
  CHECK(cells[1][1].least == doctest::Approx(0.000090));
  CHECK(cells[1][1].most == doctest::Approx(0.000180));
  CHECK(cells[0][1].least == 0.0);  // a row without calibration has no neighbours
  CHECK(cells[0][0].one_device);
  CHECK_FALSE(cells[0][1].one_device);
  // 1500 B on one device, or 600 and 900.
  CHECK(cells[2][0].ours->oom);
  CHECK_FALSE(cells[2][1].ours->oom);
  CHECK(*cells[3][0].deviation() == doctest::Approx(0.2));  // 3 x 20 us, printed as 50 us
  CHECK_FALSE(cells[3][1].ours);

  const PaperTableResult& table = result.tables[0];
  CHECK(table.oom_cells == 2);
  CHECK(table.right_oom == 1);
  // 0 and 20 % of the first row, 20 % of the second, 20 % of the last.
  CHECK(table.deviations == 4);
  CHECK(table.mean_deviation == doctest::Approx(0.15));
  CHECK(table.split_deviations == 3);  // all but the first, which is one device's
  CHECK(table.split_mean_deviation == doctest::Approx(0.2));
  CHECK(table.ranked_rows == 2);  // the third has two that the paper does not tell apart
  CHECK(table.right_rows == 2);
  CHECK(table.kendall == doctest::Approx(1.0));
  CHECK(holds(to_csv(paper, result), "steps,little memory,one,oom,oom,,,\n"));
  const std::string text = to_text(paper, result);
  CHECK(holds(text, "chain 2.000"));
  Paper wide = paper;
  PaperResult of_wide = result;
  for (int copy = 0; copy < 4; ++copy) {
    wide.tables[0].columns.push_back(wide.tables[0].columns[0]);
    for (auto& row : of_wide.tables[0].cells) row.push_back(row[0]);
  }
  for (const std::string& line : lines_of(to_text(wide, of_wide)))
    if (line.starts_with("  little memory")) CHECK(line.size() <= 100);
  CHECK(holds(to_markdown(paper, result), "| as printed |"));
}

TEST_CASE("a column of a placer that no scenario has is refused by name") {
  std::string yaml = paper_yaml;
  yaml.replace(yaml.find("{placer: expert}"), 16, "{placer: heft}");
  CHECK_REFUSED(evaluate_quietly(PaperFolder(yaml).load()),
                doctest::Contains("table steps, column two: no scenario has a placer 'heft'"));
}

TEST_CASE("published numbers of files, words for what is not readable, what a change saves") {
  PaperFolder here(R"(
inputs: [.]
tables:
  sizes:
    title: Rates
    metric: throughput
    columns:
      a: {placer: single, where: {gpu: a}, over: 2}
      b: {placer: single, where: {gpu: b}}
    rows:
      - {label: of a file, scenario: s.yaml, published: {file: '${inputs}/rates.csv', where: {batch: 8}, value: rate, times: 10}}
      - {label: of lines, scenario: s.yaml, published: {file: '${inputs}/rates.jsonl', where: {batch: 8.0}, value: rate}}
      - {label: of a figure, published: {a: not readable}}
  saved:
    title: What more speed saves
    metric: saved
    columns: {one: {placer: single}}
    rows:
      - {label: four times, scenario: s.yaml, base: {}, set: {cluster.devices.speed: 4}, published: {one: 0.5}}
  served:
    title: A server
    unit: ms
    columns:
      one: {metric: one_instance, batches: [4]}
      best: {metric: serving_latency, batches: [4]}
      gain: {metric: serving_speed_up, batches: [2, 4]}
    rows:
      - {label: two threads, server: {file: '${inputs}/profile.csv', where: {}, threads: 2}, published: {best: 60}}
)");
  here.folder.write("rates.csv", "gpu,batch,rate\na,8,3\na,16,4\nb,16,5\n");
  here.folder.write("rates.jsonl",
                    "{\"gpu\": \"a\", \"batch\": 8, \"rate\": null}\n"
                    "{\"gpu\": \"b\", \"batch\": 8, \"rate\": 7}\n");
  // Two threads serve 4 samples in 100 ms; two instances of one thread serve 2 each in 60 ms.
  here.folder.write("profile.csv", "threads,batch,mean_ms\n2,4,100\n1,2,60\n2,2,50\n1,1,40\n");
  const Paper paper = here.load();
  const auto& rows = paper.tables[0].rows;
  CHECK(rows[0].published.at("a").number == 15.0);  // 3 x 10 / 2
  CHECK_FALSE(rows[0].published.contains("b"));     // no such line
  CHECK(rows[1].published.at("a").oom);
  CHECK(rows[1].published.at("b").number == 7.0);
  const PaperResult result = evaluate_quietly(paper);
  CHECK(result.tables[0].cells[2][0].published->unread);
  CHECK(holds(to_text(paper, result), "not readable"));
  CHECK(holds(to_csv(paper, result), "sizes,of a figure,a,not readable,,\n"));
  CHECK(holds(to_csv(paper, result), "sizes,of lines,b,in file,,\n"));
  const PaperCell& saved = result.tables[1].cells[0][0];
  CHECK(saved.ours->number == doctest::Approx(0.75));  // 30 us of 120
  CHECK(*saved.deviation() == doctest::Approx(0.5));
  const auto& server = result.tables[2].cells[0];
  CHECK(server[0].ours->number == doctest::Approx(100.0));
  CHECK(server[1].ours->number == doctest::Approx(60.0));
  CHECK(server[2].ours->number == doctest::Approx((50.0 / 40.0 + 100.0 / 60.0) / 2));
}

TEST_CASE("times of placing stand beside published ones, and in no file that is compared") {
  const PaperFolder here(R"(
tables:
  times:
    title: Time to place
    unit: s
    columns:
      wall: {placer: single, metric: placing_time}
      all threads: {placer: single, metric: processor_time}
    rows:
      - {label: fits, scenario: s.yaml, published: {wall: 1e6, all threads: 1e6}}
      - {label: does not, scenario: s.yaml, set: {cluster.devices.memory: 1 kB}, published: {}}
)");
  const Paper paper = here.load();
  const PaperResult result = evaluate_quietly(paper);
  for (const auto& row : result.tables[0].cells)  // a step that does not fit was placed, too
    for (const PaperCell& cell : row) CHECK(cell.ours->number > 0.0);
  CHECK(result.tables[0].deviations == 0);
  CHECK(to_csv(paper, result) == "table,row,column,published,ours,deviation\n");
  CHECK(holds(to_text(paper, result), " x faster"));
}

TEST_CASE("cells by an objective have a value also where memory does not suffice") {
  PaperFolder here(R"(
inputs: ['${BAECHI_NO_SUCH_VARIABLE}/here', elsewhere, data]
tables:
  loads:
    title: Largest load
    unit: ms
    metric: max_load
    columns: {one: {placer: single}, two: {placer: expert}}
    rows:
      - {label: much memory, scenario: s.yaml, set: {graph.import: '${inputs}/chain.json'}, published: {one: 0.12}}
      - {label: little memory, scenario: s.yaml, set: {cluster.devices.memory: 1 kB}, published: {one: 0.12, two: 0.12}}
)");
  CHECK(here.load().missing ==
        "its inputs are not here (no ${BAECHI_NO_SUCH_VARIABLE}/here, no elsewhere, no data)");
  std::filesystem::create_directory(here.folder.file("data"));
  here.folder.write("data/chain.json", trace_of_chain);
  const Paper paper = here.load();
  CHECK(paper.missing.empty());
  const PaperResult result = evaluate_quietly(paper);
  const auto& cells = result.tables.at(0).cells;
  CHECK(cells[0][0].ours->number == doctest::Approx(0.12));  // 60 + 30 + 30 us
  CHECK_FALSE(cells[0][0].ours->over);
  // a, c, and 30 us to send a's tensor and to receive b's.
  CHECK(cells[0][1].ours->number == doctest::Approx(0.15));
  CHECK(cells[1][0].ours->number == doctest::Approx(0.12));
  CHECK(cells[1][0].ours->over);
  CHECK_FALSE(cells[1][1].ours->over);
  CHECK(result.tables[0].deviations == 3);
  CHECK(holds(to_text(paper, result), "0.12*"));
}

// Transfers take no time. All ops on one device: 120 us. b or c alone: 90 us are elsewhere. a
// alone: 60 us. Some of sixteen seeds have each.
TEST_CASE("cells by an objective take all seeds") {
  const PaperFolder here(R"(
tables:
  loads:
    title: Largest load
    unit: ms
    metric: max_load
    columns: {least: {placer: random, of: min}, mean: {placer: random}, most: {placer: random, of: max}}
    rows:
      - label: by chance
        scenario: s.yaml
        set: {cluster.link.latency: 0 us, placers: [random], seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}
        published: {}
)");
  const PaperResult result = evaluate_quietly(here.load());
  const auto& cells = result.tables.at(0).cells.at(0);
  CHECK(cells[0].ours->number == doctest::Approx(0.06));
  CHECK(cells[2].ours->number == doctest::Approx(0.12));
  // A sum of sixteen loads of 60, 90 or 120 us.
  const double sum = cells[1].ours->number * 16 / 0.03;
  CHECK(sum == doctest::Approx(std::round(sum)));
  CHECK(cells[1].ours->number > 0.06);
  CHECK(cells[1].ours->number < 0.12);
}

TEST_CASE("what is wrong with a paper is told by its place, all at once") {
  const PaperFolder here(R"(calibrations: {c: {scenario: s.yaml, placer: single, step_time: soon}}
tables:
  t:
    title: Steps
    columns: {one: {placer: single, metric: step_tme}, two: {placer: expert}}
    rows:
      - {label: r, scenario: s.yaml, calibration: d, published: {two: 1}}
      - {label: s, scenario: s.yaml, published: {three: 1, two: much}}
chapters: 3
)");
  const std::string said = message<InputError>([&] { here.load(); });
  for (const char* part :
       {"paper.yaml:3:65: 'soon' is not a time above 0",
        "paper.yaml:7:45: metric: no 'step_tme' (did you mean 'step_time'?)",
        "paper.yaml:9:51: no calibration 'd'", "paper.yaml:10:57: table t has no column 'three'",
        "paper.yaml:11:11: no key 'chapters'"})
    CHECK_MESSAGE(holds(said, part), said);
}

TEST_CASE("the committed results of the papers are those of this version") {
  const std::string folder = source_dir() + "/scenarios/papers/baechi_socc20";
  Paper paper = paper_in(folder);
  if (!thorough()) {  // table 4, without neighbouring calibrations
    paper.tables = {paper.tables.at(1)};
    paper.tables.front().neighbours.clear();
  }
  const std::string committed = read_file(folder + "/results.csv");
  const std::string now = to_csv(paper, evaluate_quietly(paper));
  if (thorough()) CHECK(now == committed);
  if (thorough()) return;
  for (const std::string& line : lines_of(now))  // two columns of neighbours follow
    CHECK_MESSAGE(holds(("\n" + committed), "\n" + line + ","), line);
}

TEST_CASE("the committed results of quick papers are those of this version") {
  for (const std::string name :
       {"cnn_utilisation", "daydream_atc20", "packrat_icml25", "tbd_iiswc18"}) {
    const Paper paper = paper_in(source_dir() + "/scenarios/papers/" + name);
    CHECK(paper.missing.empty());
    const std::string found = difference_from_committed(paper, evaluate_quietly(paper));
    CHECK_MESSAGE(found.empty(), "baechi paper ", name, " --out scenarios/papers\n", found);
  }
}

TEST_CASE("no paper reads a file that is not in the repository") {
  const std::string papers = source_dir() + "/scenarios/papers";
  for (const std::string& folder : paper_folders(papers, "")) {
    CAPTURE(folder);
    CHECK(paper_in(folder).missing.empty());
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".yaml")
        CHECK_FALSE(holds(read_file(entry.path().string()), "BAECHI_SHARED"));
  }
}
