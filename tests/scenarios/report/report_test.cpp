// report.html, its pictures of steps, timelines of runs, and plots.

#include "scenarios/report/html.h"
#include "scenarios/run/resumable_run.h"
#include "sim/report/timeline.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"
#include "tests/sim/report/timeline_checks.h"
#include "traces/format/compressed_file.h"

using Json = nlohmann::json;

namespace {

Json picture_of(const Problem& problem, const Placement& placement, const PictureSize& size = {}) {
  Timeline timeline;
  StepObserver* observers[] = {&timeline};
  const StepResult step = simulate(problem, placement, observers);
  return Json::parse(picture(problem, timeline, step, {}, size));
}

/// Two points; at the tighter one a single device has too little memory.
const std::string swept_text = R"(
name: <small> & "quoted"
graph: {generate: layered, ops: 60, width: 8, training: true}
cluster: {devices: {count: 2, memory: 20 MiB}, link: {bandwidth: 1 GB/s, latency: 5 us}}
placers: [single, round_robin, {name: m_topo, m_topo: {fallback: false}}, m_etf]
sweep: {cluster.memory_fraction: [0.6, 1.0]}
)";

constexpr const char* apart = ">out.txt 2>err.txt </dev/null";

/// The page's data, as its scripts read it.
Json data_of(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const std::size_t at = html.find(begin) + begin.size();
  return Json::parse(html.substr(at, html.find("</script>", at) - at));
}

}  // namespace

TEST_SUITE_BEGIN("report");
TEST_CASE("a picture has the compute, transfers and memory of each device, by start") {
  // a 0..10 on gpu0, its 100 B 10..110, then b 110..130 and c 130..160 on gpu1. a's output is
  // freed on gpu0 when the transfer ends; the copy is on gpu1 from the transfer's start to c's
  // end.
  const Problem& problem = OwnedProblem(one_tensor_two_readers(), gpus(2, 1000_B)).problem;
  const Json p = picture_of(problem, on({gpu0, gpu1, gpu1}));
  CHECK(p["ns"] == 160);
  CHECK(p["quantum"] == 1);
  CHECK(p["unit"] == 1);
  CHECK(p["oom"].is_null());
  const Json& sender = p["devices"][0];
  CHECK(sender["name"] == "gpu0");
  CHECK(sender["limit"] == 1000);
  CHECK(sender["busy"] == 10);
  CHECK(sender["peak"] == 100);
  CHECK(sender["compute"] == Json({0, 10, 0, 1, 0, 0}));
  CHECK(sender["send"] == Json({10, 100, 0, 1, 1}));
  CHECK(sender["receive"].empty());
  const Json& receiver = p["devices"][1];
  CHECK(receiver["compute"] == Json({110, 20, 1, 1, 0, 0, 20, 30, 2, 1, 0, 0}));
  CHECK(receiver["receive"] == Json({10, 100, 0, 1, 0}));
  CHECK(receiver["memory"] == Json({0, 0, 0, 0, 0, 10, 0, 0, 100, 0, 150, 0, 0, 0, 0}));
}

TEST_CASE("a picture of many ops is small, and still has their time and the peak") {
  OpGraphBuilder g;
  OpId before = g.add_op({.name = "op0", .compute = 10ns, .persistent = 5_B});
  for (int i = 1; i < 20'000; ++i) {
    const TensorId t = g.add_tensor(before, i == 777 ? 1000_B : 1_B);
    before = g.add_op({.name = "op" + std::to_string(i), .compute = Duration(1 + i % 17)});
    g.add_edge(t, before);
  }
  const OpGraph graph = std::move(g).build();
  const Cluster cluster = gpus(1);
  const Problem& problem = OwnedProblem(graph, cluster).problem;
  const Placement all{.device = IdVector<OpId, DeviceId>(graph.num_ops(), gpu0)};
  const PictureSize size{.computing = 300, .transfers = 100, .memory = 100};
  const Json p = picture_of(problem, all, size);
  const Json& device = p["devices"][0];
  CHECK(device["compute"].size() / 6 <= 300);
  std::int64_t ops = 0, time = 0;
  for (std::size_t i = 0; i < device["compute"].size(); i += 6) {
    time += device["compute"][i + 1].get<std::int64_t>();
    ops += device["compute"][i + 3].get<std::int64_t>();
  }
  CHECK(ops == 20'000);
  CHECK(time * p["quantum"].get<std::int64_t>() == p["ns"]);  // it never waits
  CHECK(device["memory"].size() / 5 <= 2 * 51 + 1);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < device["memory"].size(); i += 5)
    most = std::max(most, device["memory"][i + 1].get<std::int64_t>() +
                              device["memory"][i + 2].get<std::int64_t>());
  CHECK(most == device["peak"]);
  CHECK(p.dump().size() < 12'000);
}

TEST_CASE("a picture of a step that ran out of memory has the device and the time") {
  const Problem& problem = OwnedProblem(one_tensor_two_readers(), gpus(1, 99_B)).problem;
  const Json p = picture_of(problem, on({gpu0, gpu0, gpu0}));  // a writes 100 B
  CHECK(p["oom"] == Json({{"device", 0}, {"ns", 0}, {"op", "a"}, {"needed", 100}, {"free", 99}}));
}

TEST_CASE("as many whole points are drawn as the limit of pictures allows, evenly spaced") {
  // 10 points of 4 runs
  CHECK(points_to_draw(10, 4, 100).size() == 10);
  CHECK(points_to_draw(10, 4, 39).size() == 9);
  CHECK(points_to_draw(10, 4, 8) == std::vector<std::size_t>{0, 9});
  CHECK(points_to_draw(10, 4, 3) == std::vector<std::size_t>{0, 4, 9});  // of each the fastest
  CHECK(points_to_draw(10, 4, 0).empty());
  CHECK(points_to_draw(0, 4, 5).empty());
}

TEST_CASE("of a point with too many runs the fastest is drawn, of equal ones the first") {
  const Sweep sweep = sweep_of(swept_text, {"report.pictures=2"});
  const TemporaryFolder folder;
  Results results = run_all(sweep);  // 4 placers at 2 points
  draw_steps(results, sweep, folder.file(""), 1);
  for (const std::size_t first : {std::size_t{0}, std::size_t{4}}) {
    const auto rows = std::span(results.rows).subspan(first, 4);
    const auto fastest = std::ranges::min_element(
        rows, {}, [](const RunResult& row) { return row.value.value_or(Duration::max()); });
    for (const RunResult& row : rows) CHECK(row.picture.empty() == (&row != &*fastest));
  }
}

TEST_CASE("timelines of runs: none, each point's fastest, or all that were simulated") {
  for (const auto& [timelines, files] : {std::pair("none", 0), {"best", 2}, {"all", 7}}) {
    CAPTURE(timelines);
    const TemporaryFolder folder;
    const Sweep sweep = sweep_of(swept_text, {std::string("report.timelines=") + timelines});
    Results results = run_all(sweep);
    std::size_t simulated = 0;
    for (const RunResult& row : results.rows)
      simulated += row.status == Status::ok || row.status == Status::oom ? 1U : 0U;
    REQUIRE(simulated == 7);  // m_topo finds nothing at 0.6
    const std::string runs = folder.file("runs");
    CHECK(draw_steps(results, sweep, runs, 2) == static_cast<std::size_t>(files));
    for (const auto& entry : std::filesystem::directory_iterator(runs)) {
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      CHECK(name.ends_with(".trace.json.gz"));
      const std::size_t id = std::stoul(name);
      CHECK(name == std::to_string(id) + "." + results.rows[id].placer + ".trace.json.gz");
      check_timeline(read_file(entry.path().string()));
    }
    for (const RunResult& row : results.rows) {
      const bool drawn = row.status == Status::ok || row.status == Status::oom;
      REQUIRE(row.picture.empty() != drawn);
      if (row.value) CHECK(Json::parse(row.picture)["ns"] == row.value->count());
    }
  }
}

TEST_CASE("stored placements give the same pictures as placing again") {
  Results kept = run_all(sweep_of(swept_text));
  const TemporaryFolder folder;
  draw_steps(kept, sweep_of(swept_text), folder.file(""), 1);
  const Sweep without = sweep_of(swept_text, {"report.placements=false"});
  Results repeated = run_all(without);
  draw_steps(repeated, without, folder.file(""), 3);
  REQUIRE(kept.rows.size() == repeated.rows.size());
  for (std::size_t i = 0; i < kept.rows.size(); ++i)
    CHECK(kept.rows[i].picture == repeated.rows[i].picture);
}

TEST_CASE("the page escapes its data, whatever the names, and reads back the same") {
  const TemporaryFolder folder;
  const Sweep sweep = sweep_of(swept_text);
  Results results = run_all(sweep);
  draw_steps(results, sweep, folder.file(""), 1);
  results.graphs[0].op_names = "</script><script>alert(1)</script>\n" + results.graphs[0].op_names;
  results.rows[0].detail = "<b>\"&";
  write_results(folder.file("r"), results);
  const std::string html = folder.read("r/report.html");
  CHECK(html == to_html(read_results(folder.file("r"))));
  CHECK_FALSE(holds(html, "<script>alert"));
  CHECK(holds(html, "<h1>&lt;small&gt; &amp; &quot;quoted&quot;</h1>"));
  const Json data = data_of(html);
  CHECK(data["steps"].size() == 7);
  CHECK(data["names"]["0"]["0"] == "</script><script>alert(1)</script>");
  for (const RunResult& row : results.rows) {
    if (row.picture.empty()) continue;
    const Json& step = data["steps"][std::to_string(row.id)]["picture"];
    CHECK(step == Json::parse(row.picture));
    for (const Json& device : step["devices"])  // what ran, and what was sent, has a name
      for (const auto& [track, each] :
           {std::pair("compute", 6), std::pair("send", 5), std::pair("receive", 5)})
        for (std::size_t i = 2; i < device[track].size(); i += static_cast<std::size_t>(each))
          CHECK(data["names"]["0"].contains(device[track][i].dump()));
  }
  REQUIRE(data["tables"].size() == 1);
  CHECK(data["tables"][0]["scales"][0]["kind"] == "linear");
  CHECK(data["tables"][0]["scales"][0]["at"]["0.6"] == 0.6);
  CHECK(data["profiles"]["step"].size() == 4);
  const Json& table = data["tables"][0];
  CHECK(table["axes"] == Json({"memory fraction"}));
  CHECK(table["columns"] == Json({{"0.6"}, {"1.0"}}));
  CHECK(table["rows"][3]["name"] == "m_etf");
  CHECK(table["rows"][3]["value"][1] == results.rows[7].value->count());
  CHECK(table["rows"][2]["status"] == Json({2, 0}));
  CHECK(table["rows"][2]["value"][0].is_null());
  CHECK(data["steps"][data["first"].get<std::string>()]["point"] ==
        results.graphs[0].label + ", memory fraction 1.0");
}

TEST_CASE("the page does not escape characters beyond ASCII, also in pictures") {
  Results results = run_all(sweep_of(swept_text));
  results.rows[0].picture =
      R"({"ns":1,"quantum":1,"unit":1,"oom":null,"devices":[{"name":"g\u00fc","limit":1,)"
      R"("busy":0,"peak":0,"compute":[0,1,2,1,0,0],"send":[],"receive":[],"memory":[]}]})";
  const std::string html = to_html(results);
  CHECK(holds(html, "{\"name\":\"gü\",\"limit\":1,"));
  const Json step = data_of(html)["steps"]["0"];
  CHECK(step["grouped"] == false);
  CHECK(data_of(html)["names"]["0"].size() == 1);  // of op 2
}

TEST_CASE("with very many runs the page shows the first ones and says so") {
  Results results;
  results.scenarios = {{.name = "many", .path = "", .text = "", .sets = ""}};
  results.graphs = {
      {.name = "g", .label = "g", .hash = "", .source = "", .format = "", .op_names = ""}};
  results.axes = {"engine.x"};
  for (std::size_t id = 0; id < 30'000; ++id) {
    RunResult row;
    row.id = id;
    row.placer = id % 2 == 0 ? "one" : "two";
    row.at = {std::to_string(id / 2)};
    row.status = Status::ok;
    row.value = Duration(1000 + id);
    results.rows.push_back(row);
  }
  const std::string html = to_html(results);
  CHECK(holds(html, "<b>10000 of the runs are not on this page"));
  CHECK(data_of(html)["tables"][0]["columns"].size() == 10'000);
  CHECK(html.size() < 4'000'000);
}

TEST_CASE("a browser draws the charts and a step") {
  if (!there_is("chromium", "command -v chromium")) return;
  const TemporaryFolder folder;
  const Sweep sweep = sweep_of(swept_text);
  Results results = run_all(sweep);
  draw_steps(results, sweep, folder.file(""), 1);
  write_results(folder.file("r"), results);
  const std::string browser =
      "timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars "
      "--user-data-dir='" +
      folder.file("profile") + "' --window-size=1280,1700 ";
  const std::string page = " 'file://" + folder.file("r/report.html") + "'";
  REQUIRE(shell(folder, browser + "--dump-dom" + page, apart) == 0);
  const std::string dom = folder.read("out.txt");
  CHECK(holds(dom, "data-charts=\"2\""));
  CHECK(holds(dom, "data-steps=\"1\""));
  const auto failed = std::ranges::find(results.rows, Status::oom, &RunResult::status);
  const std::string explain = fmt::format("#explain-{}", failed->id);
  CHECK(holds(dom, "<a href=\"" + explain + "\">OOM</a>"));
  CHECK_FALSE(holds(dom, "id=\"why\""));
  REQUIRE(shell(folder, browser + "--dump-dom" + page + explain, apart) == 0);
  CHECK(says(folder, "out.txt",
             fmt::format("baechi explain '{}' --run {}", folder.file("r"), failed->id)));
}

TEST_CASE("a chart's data: the value of each placer and point, or how its run failed") {
  Results results = run_all(sweep_of(swept_text));
  const std::string csv = chart_plots(results).front().csv;
  CHECK(csv.starts_with("placer,memory fraction,position,step time [us],status\n"));
  const auto lines_with = [](const std::string& text, const char* ending) {
    return std::ranges::count_if(lines_of(text),
                                 [&](const std::string& line) { return line.ends_with(ending); });
  };
  CHECK(lines_with(csv, ",bound") == 2);
  CHECK(holds(csv, "\nsingle,0.6,0.6,,oom\n"));
  CHECK(lines_with(csv, ",,error") == 0);
  const auto ok = lines_with(csv, ",ok"), infeasible = lines_with(csv, ",,infeasible");
  CHECK(infeasible > 0);
  for (RunResult& row : results.rows)
    if (row.status == Status::ok) row.status = Status::error, row.value.reset();
  CHECK(lines_with(chart_plots(results).front().csv, ",,error") == ok);
  CHECK(lines_with(chart_plots(results).front().csv, ",,infeasible") == infeasible);
}

TEST_CASE("plots of settings whose names are cut to the same have files of their own") {
  Results results = run_all(sweep_of(swept_text));
  const std::string lengthy(200, 'x');
  results.axes.emplace_back("engine.lengthy");
  for (RunResult& row : results.rows) row.at.push_back(lengthy + "1");
  const std::size_t runs = results.rows.size();
  for (std::size_t i = 0; i < runs; ++i) {
    results.rows.push_back(results.rows[i]);
    results.rows.back().id = runs + i;
    results.rows.back().at.back() = lengthy + "2";
  }
  std::set<std::string> names;
  for (const Plot& plot : chart_plots(results)) CHECK(names.insert(plot.name).second);
  CHECK(names.size() == 4);
}

TEST_CASE("report --plots writes CSV, and draws it as SVG and PDF where there is matplotlib") {
  const TemporaryFolder folder;
  const Sweep sweep = sweep_of(swept_text);
  Results results = run_all(sweep);
  draw_steps(results, sweep, folder.file(""), 1);
  CHECK(chart_plots(results).size() == 2);
  const std::string runs = folder.file("it's results");
  write_results(runs, results);
  const std::string report = program() + " report \"" + runs + "\" --plots";
  REQUIRE(shell(folder, report, apart) == 0);
  CHECK(holds(folder.read("err.txt"), "(3 plots)\n"));
  const bool drawn = !holds(folder.read("err.txt"), "no pictures, for there is no");
  if (!drawn) MESSAGE("skipped: there is no matplotlib");
  std::map<std::string, int> endings;
  for (const auto& entry : std::filesystem::directory_iterator(runs + "/plots")) {
    ++endings[entry.path().extension().string()];
    const std::string name = "it's results/plots/" + entry.path().filename().string();
    CAPTURE(name);
    const std::string text = folder.read(name);
    if (name.ends_with(".pdf")) CHECK(text.starts_with("%PDF"));
    if (!name.ends_with(".svg")) continue;
    CHECK(holds(text, "<svg"));
    CHECK(holds(text, name.find("/step.") != std::string::npos ? "workspace" : "round_robin"));
    if (holds(name, "/step_time.")) CHECK(holds(text, "out of memory"));
  }
  CHECK(endings[".csv"] == 3);
  CHECK(endings[".svg"] == (drawn ? 3 : 0));
  CHECK(endings[".pdf"] == (drawn ? 3 : 0));
  CHECK(shell(folder, report + " --step 99", apart) == 2);
  CHECK(
      folder.read("err.txt").starts_with("--step 99: no run of which there is a picture (those: "));
}

TEST_CASE("the tab Utilisation: a table, and roofline points, of graphs with the ops' work") {
  const TemporaryFolder folder;
  const std::string text = R"(
name: used
graph: {generate: resnet50, batch: 4, training: false}
cluster: {devices: {count: 1, kind: v100_pytorch}, link: {kind: pcie3}}
placers: [single]
)";
  Sweep sweep = sweep_of(text);
  Results results = run_all(sweep);
  draw_steps(results, sweep, folder.file("r"), 1);
  const std::string html = to_html(results);
  CHECK(holds(html, "data-tab=\"utilisation\""));
  const Json page = data_of(html);
  REQUIRE(page["utilisation"].size() == 1);
  const Json& run = page["utilisation"][0];
  CHECK(run["graph"] == "resnet50");
  CHECK(run["peak"].get<double>() == doctest::Approx(15.7e12));  // the data sheet's
  CHECK(run["bandwidth"].get<double>() == doctest::Approx(900e9));
  // 4 images of 2 x 4.089 GFLOP in convolutions and the dense layer, 1 % in others.
  CHECK(run["flops"].get<double>() / 4 / 2 / 4.089e9 == doctest::Approx(1.005).epsilon(0.005));
  const Json& roofline = page["steps"]["0"]["picture"]["roofline"];
  CHECK(roofline["ops"].size() <= 100);
  CHECK(roofline["roofs"][0]["device"] == "v100_pytorch");
  if (there_is("chromium", "command -v chromium")) {
    folder.write("page.html", html);
    REQUIRE(shell(folder,
                  "timeout 120 chromium --headless --no-sandbox --disable-gpu "
                  "--virtual-time-budget=5000 --dump-dom 'file://" +
                      folder.file("page.html") + "#utilisation'",
                  apart) == 0);
    CHECK(holds(folder.read("out.txt"), "data-roofline=\"1\""));
  }
  // The layered graph has times and no work: no data, and no tab.
  Results timed = run_all(sweep_of(swept_text));
  CHECK_FALSE(holds(to_html(timed), "data-tab=\"utilisation\""));
  const std::size_t first = std::size_t(std::ranges::find(fixed_columns(), "flops", &Column::name) -
                                        fixed_columns().begin());
  for (const RunResult& row : timed.rows)
    for (std::size_t c = first; c < fixed_columns().size(); ++c)
      CHECK((fixed_columns()[c].name == "placed_by" || fixed_columns()[c].name == "point" ||
             result_cells(timed, row)[c].empty()));
}

TEST_CASE("the page says first what was compared and who is the fastest, and what colours mean") {
  const std::string html = to_html(run_all(sweep_of(swept_text)));
  const std::size_t first = html.find("<p class=\"first\">4 placers on a graph (");
  REQUIRE(first != std::string::npos);
  const std::string sentence = html.substr(first, html.find("</p>", first) - first);
  CHECK(holds(sentence, "), 2 devices with 12.00 MiB to 20.00 MiB each. Fastest of 2 points: "));
  CHECK(html.find("<i class=\"oom\"></i>out of memory") < html.find("<table>"));
  CHECK(html.find("<th>placer</th><th>x best</th><th>failures</th><th>placing</th>") <
        html.find("<summary>more columns</summary>"));
}

TEST_CASE("the page marks the step that fallback placed, and explains the mark") {
  Results results = run_all(sweep_of(swept_text));
  CHECK_FALSE(holds(to_html(results), fallback_mark));
  const auto solved = std::ranges::find(results.rows, Status::ok, &RunResult::status);
  REQUIRE(solved != results.rows.end());
  solved->placed_by = "fallback:heft";
  const std::string html = to_html(results);
  CHECK(holds(html, short_text(*solved->value) + fallback_mark));
  CHECK(holds(html, fallback_meaning));
}
