#include "scenarios/report/html.h"
#include "scenarios/run/resumable_run.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

namespace {

/// f on one device and the rest on another has a value for every measure.
constexpr const char* training = "f10k,w40 -1000> g10k -1000> h20k,b -1000> u5k,u";

const std::string base = R"(
name: measured
graph: {import: training.json}
cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}
placers: [single, round_robin]
sweep: {cluster.memory_fraction: [0.5, 1.0]}
)";
const std::string all_measures =
    "measure: [step_time, max_load, {latency: {}}, {pipeline: {schedule: 1f1b_flush, "
    "micro_batches: [8, 32]}}]\n";
constexpr std::size_t runs = 2 * 2 * 5;

Sweep sweep_in(const TemporaryFolder& folder, const std::string& text) {
  write_graph(folder.file("training.json"), training, "training");
  return sweep_of(text, {}, folder.file("s.yaml"));
}

}  // namespace

TEST_SUITE_BEGIN("measure");
TEST_CASE("a row per measure and per value of its lists, the measure varies fastest") {
  const TemporaryFolder folder;
  const Results results = run_all(sweep_in(folder, base + all_measures));
  REQUIRE(results.rows.size() == runs);
  const std::vector<std::string> expected{"step_time", "max_load", "latency",
                                          "pipeline:schedule=1f1b_flush,micro_batches=8",
                                          "pipeline:schedule=1f1b_flush,micro_batches=32"};
  const std::vector<std::string> units{"us per step", "us per sample", "us per sample",
                                       "us per micro-batch", "us per micro-batch"};
  for (const RunResult& row : results.rows) {
    CHECK(row.measure == expected[row.id % 5]);
    CHECK(row.unit == units[row.id % 5]);
    CHECK(row.placing == results.rows[row.id - row.id % 5].placing);  // placed once
    CHECK(row.placement == results.rows[row.id - row.id % 5].placement);
  }
  // On one device: 45 us a step, a load and a latency of as much; 8 x 40 + 5 = 325 us of 8
  // micro-batches, 32 x 40 + 5 = 1285 us of 32.
  const std::vector<Duration> single{45us, 45us, 45us, 40'625ns, 40'156ns};
  for (std::size_t m = 0; m < 5; ++m) CHECK(results.rows[m].value == single[m]);
  std::set<std::uint64_t> keys;
  for (const RunResult& row : results.rows) keys.insert(row.key);
  CHECK(keys.size() == runs);
}

TEST_CASE("no pipeline is faster than its bound, which counts updates once") {
  const TemporaryFolder folder;
  const Results results = run_all(sweep_in(folder, base + all_measures));
  // Two devices divide the 40 us of all ops except the update.
  CHECK(results.rows[3].lower_bound == 20us);
  CHECK(results.rows[4].lower_bound == 20us);
  CHECK(results.rows[0].lower_bound == 45us);  // the longest chain of the step
}

TEST_CASE("throughput counts the samples of all batches of the step") {
  const TemporaryFolder folder;
  write_graph(folder.file("batch.json"), "f10k", "", 3);
  const std::string text =
      "name: t\ngraph: {import: batch.json}\n"
      "cluster: {devices: {count: 1, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}\n"
      "placers: [single]\n";
  const std::string path = folder.file("s.yaml");
  // 3 samples in 10 us; 4 x 3 in 40 us.
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{}, {"transforms=[{micro_batches: {count: 4}}]"}}) {
    const Sweep sweep = sweep_of(text, sets, path);
    const Results results = run_all(sweep);
    CHECK(throughput(results, results.rows[0]) == doctest::Approx(300'000.0));
  }
}

TEST_CASE("without the key, and with step_time, the runs and their hashes are the same") {
  const TemporaryFolder folder;
  const Sweep plain = sweep_in(folder, base);
  const Sweep named = sweep_in(folder, base + "measure: step_time\n");
  CHECK(plain.header().hash == named.header().hash);
  CHECK(to_csv(without_placing(run_all(plain))) == to_csv(without_placing(run_all(named))));
  CHECK(sweep_in(folder, base + "measure: max_load\n").header().hash != plain.header().hash);
  // The step times with other measures equal those without.
  const Results alone = run_all(plain);
  const Results among = run_all(sweep_in(folder, base + all_measures));
  for (const RunResult& row : alone.rows) {
    const RunResult& same = among.rows[5 * row.id];
    CHECK(same.key == row.key);
    CHECK(same.value == row.value);
    CHECK(same.peak == row.peak);
  }
}

TEST_CASE("measures can be swept and set") {
  const TemporaryFolder folder;
  write_graph(folder.file("training.json"), training, "training");
  const std::string path = folder.file("s.yaml");
  const std::string swept = base + "  ";
  CHECK(sweep_of(base, {"sweep.measure=[step_time, max_load]"}, path).num_runs() == 8);
  CHECK(sweep_of(base, {"measure={max_load: {phases: [together, apart]}}"}, path).num_runs() == 8);
  CHECK_REFUSED(sweep_of(base, {"measure=[latency, latency]"}, path),
                "--set measure:1:11: measure: 'latency' is listed twice");
  CHECK_REFUSED(
      sweep_of(base, {"measure={pipeline: {schedule: 1f2b}}"}, path),
      "--set measure:1:23: pipeline.schedule: '1f2b' is not one of gpipe, inference, 1f1b, "
      "1f1b_flush, 2bw, interleaved, zb_h1, zb_h2, zb_v, dualpipe (did you mean '1f1b'?)");
}

TEST_CASE("CSV, SQLite, shards and resumed runs distinguish the measures") {
  const TemporaryFolder folder;
  const Sweep sweep = sweep_in(folder, base + all_measures);
  const Results whole = without_placing(run_all(sweep, {.threads = 2}));
  const std::string csv = to_csv(whole);
  CHECK(holds(csv,
              "gap,measure,value,unit,weights_bytes,gradients_bytes,optimizer_state_bytes,"
              "activations_bytes,workspace_bytes,copies_bytes,throughput,busy,flops,"
              "traffic_bytes,flops_utilisation,busy_flops_utilisation,memory_utilisation,"
              "compute_bound,memory_bound,launch_bound,intensity,placed_by,point\n"));
  // step_time_us is empty if another value was measured; so are peaks of objectives.
  CHECK(holds(csv,
              "1,measured,training,4,single,0,2,0.5,536870912,sequential,ok,,22.500,0.000,,,,"
              "0.5,max_load,45.000,us per sample,,,,,,,,,,,,,,,,,,single,"));
  write_results(folder.file("whole"), whole);
  CHECK(to_csv(read_results(folder.file("whole"))) == csv);

  std::vector<std::string> folders;
  for (const std::size_t shard : {1U, 2U}) {
    folders.push_back(folder.file("part" + std::to_string(shard)));
    const std::vector<std::size_t> ids = shard_runs(sweep, shard, 2);
    {  // half of the runs, then stopped
      ResumableRun run(folders.back(), sweep, ids, false);
      run.run(std::span(ids).first(3), {});
    }
    ResumableRun run(folders.back(), sweep, ids, true);
    CHECK(run.remaining().size() == ids.size() - 3);
    run.run(run.remaining(), {});
    run.finish({});
  }
  CHECK(to_csv(without_placing(merge_results(folders))) == csv);
}

TEST_CASE("no table, chart or summary has values of two measures") {
  const TemporaryFolder folder;
  const Results results = run_all(sweep_in(folder, base + all_measures));
  const std::vector<ResultTable> tables = result_tables(results);
  REQUIRE(tables.size() == 5);
  CHECK(tables[0].figure() == "step time");
  // The label of an axis has no space for options; they are in the title.
  CHECK(tables[3].figure() == "pipeline per micro-batch");
  CHECK(tables[3].title() == ", pipeline:schedule=1f1b_flush,micro_batches=8 per micro-batch");
  for (const ResultTable& table : tables) {
    CHECK(table.rows.size() == 2);
    for (const ResultTable::Row& row : table.rows)
      for (const RunResult* run : row.cells) CHECK(run->measure == table.measure);
  }
  CHECK_FALSE(tables[1].has_peaks());
  const std::vector<Contest> contests = overview(results).contests();
  REQUIRE(contests.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(contests[i].measure == tables[i].measure);
  const std::string text = to_text_tables(overview(results), false);
  CHECK(holds(text, "measured: training, 4 ops, max_load per sample\n"));
  CHECK(holds(text, "By latency. Geometric means"));
  const std::string html = to_html(results);
  CHECK(holds(html, "\"figure\":\"max_load per sample\",\"peaks\":false"));
  std::set<std::string> names;
  for (const Plot& plot : chart_plots(results)) {
    CHECK(names.insert(plot.name).second);
    CHECK_FALSE(holds(plot.csv, "pipeline:schedule"));
  }
  CHECK(names.size() == 8);  // 5 values, and peaks of the step and of 2 pipelines
}

TEST_CASE("a placement without a value of one measure is infeasible there alone") {
  const TemporaryFolder folder;
  write_graph(folder.file("training.json"), training, "training");
  const Results results = run_all(
      sweep_of(base, {"measure=[step_time, {pipeline: {schedule: interleaved, micro_batches: 3}}]"},
               folder.file("s.yaml")));
  const RunResult& row = results.rows[3];  // round_robin, on two devices
  CHECK(results.rows[2].status == Status::ok);
  CHECK(row.status == Status::infeasible);
  CHECK(holds(row.detail, "interleaved"));
  CHECK(row.value == std::nullopt);
}

TEST_CASE("what no placement can run is a mistake, reported once, before any run") {
  const TemporaryFolder folder;
  write_graph(folder.file("training.json"), training, "training");
  write_graph(folder.file("lanes.json"), "f10k,w40 -1000> g10k -1000> h20k,b -1000> u5k,u,l:copy");
  const auto mistake = [&](const std::vector<std::string>& sets) {
    const std::string said =
        message<InputError>([&] { sweep_of(base, sets, folder.file("s.yaml")); });
    return said == "no error" ? "" : said;
  };
  const std::string inference = "graph={generate: layered, ops: 6, training: false}",
                    lanes = "transforms=[{host: {launch: 5 us}}]",
                    replicate = "placers=[{exact_dp: {replicate: true}}, single]",
                    pipeline = "measure={pipeline: {schedule: ";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{inference, pipeline + "gpipe}}"}, "has no backward op"},
      {{lanes, "measure=[latency, step_time]"}, "lanes or collectives"},
      {{replicate, lanes}, "transforms of the placed step do not support"},
      {{replicate, pipeline + "1f1b}}"}, "must have one device each"},
      {{replicate, "measure={max_load: {phases: apart}}"}, "does not support replicated stages"},
      {{pipeline + "dualpipe, micro_batches: 5}}"}, "an even number"},
      {{"cluster={nodes: {count: 2, kind: dgx_a100}}", "engine.transfers=staged"},
       "staged needs one machine"},
      {{"engine.semantics=baechi", "cluster={nodes: {count: 2, kind: dgx_a100}}"},
       "one link for all pairs"},
      {{"graph={import: lanes.json}", "placers=[exact_dp]"},
       "supports only devices that run one op at a time"},
      {{"graph={import: lanes.json}", "placers=[{search: {objective: latency}}]"},
       "latency: graphs with lanes"},
      {{"transforms=[{what_if: [{scale: {time: 1e6}}, {scale: {time: 1e6}}, {scale: {time: "
        "1e6}}]}]"},
       "its times add up to more than 146 years"}};
  for (const auto& [sets, words] : cases) {
    CAPTURE(words);
    const std::string found = mistake(sets);
    CAPTURE(found);
    CHECK(holds(found, words));
    CHECK(found.find(words) == found.rfind(words));  // once, not once per row
  }
  CHECK(mistake({lanes}).empty());
  CHECK(mistake({replicate}).empty());
  CHECK(mistake({pipeline + "dualpipe, micro_batches: 4}}"}).empty());
}
