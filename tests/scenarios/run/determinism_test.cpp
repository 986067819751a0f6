#include "scenarios/report/html.h"
#include "scenarios/run/hashes.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

TEST_SUITE_BEGIN("determinism");
TEST_CASE("one thread and four write the same bytes, except for the placing time") {
  const TemporaryFolder folder;
  const Results one = without_placing(run_all(sweep_of(swept), {.threads = 1}));
  const Results four = without_placing(run_all(sweep_of(swept), {.threads = 4}));
  REQUIRE(one.rows.size() == swept_runs);
  write_results(folder.file("one"), one);
  write_results(folder.file("four"), four);
  for (const char* file : {"results.csv", "results.sqlite", "report.html"})
    CHECK(folder.read(std::string("one/") + file) == folder.read(std::string("four/") + file));
  CHECK(folder.num_files() == 0);
  std::set<Status> seen;  // the test is only meaningful if every status occurs
  for (const RunResult& row : one.rows) seen.insert(row.status);
  CHECK(seen == std::set<Status>{Status::ok, Status::oom, Status::infeasible});
}

// meta has key and value next to each other; an index has only the key.
TEST_CASE("equal runs have equal checksums, whatever the placing times, which have their own") {
  const TemporaryFolder folder;
  const auto checksum = [&](int ms, const std::string& key) {
    Results results = run_all(sweep_of(swept, {"seeds=[1]"}), {.threads = 1});
    for (RunResult& row : results.rows) row.placing = std::chrono::milliseconds(ms);
    write_results(folder.file("r"), results);
    CHECK(read_results(folder.file("r")).rows.front().placing == std::chrono::milliseconds(ms));
    const std::string file = folder.read("r/results.sqlite");
    for (std::size_t at = 0; (at = file.find(key, at)) != std::string::npos; ++at)
      if (const std::string value = file.substr(at + key.size(), 16);
          value.size() == 16 && value.find_first_not_of("0123456789abcdef") == std::string::npos)
        return value;
    return std::string();
  };
  CHECK(checksum(1, "checksum") != "");
  CHECK(checksum(1, "checksum") == checksum(2, "checksum"));
  CHECK(checksum(1, "checksum of times") != checksum(2, "checksum of times"));
}

TEST_CASE("no run begins once `stop` is set") {
  const Sweep sweep = sweep_of(swept);
  const std::atomic<bool> stop{true};
  std::atomic<std::size_t> done{0};
  const Results results = run_all(sweep, {.threads = 2, .stop = &stop, .done = &done});
  CHECK(results.rows.empty());
  CHECK(done == 0);
  CHECK(to_csv(results).starts_with("id,scenario,graph,"));
}

TEST_CASE("the hash depends on everything that determines the rows, and on nothing else") {
  const std::string hash = sweep_of(swept).header().hash;
  CHECK(sweep_of(swept + "# a remark\n").header().hash == hash);
  CHECK(sweep_of(swept + "engine: {overlap: false}\n").header().hash != hash);
  std::string other = swept;
  other.replace(other.find("seeds: [1, 2]"), 13, "seeds: [1, 3]");
  CHECK(sweep_of(other).header().hash != hash);
}

TEST_SUITE_BEGIN("point");
/// The point of the only row of a scenario of one run.
static std::uint64_t point_of(const std::string& cluster, const std::string& rest = "") {
  const Sweep sweep = sweep_of(
      "graph: {generate: layered, ops: 5}\nplacers: [single]\ncluster: " + cluster + "\n" + rest);
  REQUIRE(sweep.num_runs() == 1);
  return sweep.row(sweep.run(0)).point;
}

TEST_CASE("rows have equal points if graph, cluster, engine and profile are equal") {
  const std::string link = "{devices: {count: 2, memory: 1 GB}, link: {bandwidth: 1 GB/s}}";
  CHECK(point_of(link) ==
        point_of("{devices: {count: 2, memory: 1000 MB}, link: {bandwidth: 1000 MB/s}}"));
  std::set<std::uint64_t> points{
      point_of(link),
      point_of("{devices: {count: 2, memory: 1 GB}, link: {bandwidth: 2 GB/s}}"),
      point_of("{devices: {count: 2, memory: 1 GB}, link: {bandwidth: 1 GB/s, latency: 1 us}}"),
      point_of("{devices: {count: 2, memory: 2 GB}, link: {bandwidth: 1 GB/s}}"),
      point_of(link, "transforms: [{micro_batches: {count: 2}}]\n"),
      point_of(link, "profile: {error: 0.1}\n")};
  for (const char* engine : {"overlap: false", "cache_tensors: false", "queue: priority",
                             "transfers: duplex", "overlapped: 2", "disturbed: 2"})
    points.insert(point_of(link, std::string("engine: {") + engine + "}\n"));
  CHECK(points.size() == 12);
}

TEST_CASE("the hash of a graph includes its lanes and collectives") {
  const auto hash = [](std::string_view lane, int bytes) {
    return fingerprint(
        graph_of(fmt::format("a0,l:{0}; b0,x:all_reduce/{1}; c0,x:all_reduce/{1}", lane, bytes)));
  };
  CHECK(hash("host", 1) == hash("host", 1));
  CHECK(hash("host", 1) != hash("copy", 1));
  CHECK(hash("host", 1) != hash("host", 2));
}

TEST_SUITE_BEGIN("results");
TEST_CASE("the columns are the fixed ones, then the axes without a column") {
  const Results results = run_all(sweep_of(swept), {.threads = 1});
  const std::string csv = to_csv(results);
  CHECK(csv.substr(0, csv.find('\n')) ==
        "id,scenario,graph,ops,placer,seed,devices,memory_fraction,memory_bytes,transfers,status,"
        "step_time_us,lower_bound_us,placing_ms,peak_bytes,moved_bytes,detail,gap,measure,value,"
        "unit,weights_bytes,gradients_bytes,optimizer_state_bytes,activations_bytes,workspace_"
        "bytes,copies_bytes,throughput,busy,flops,traffic_bytes,flops_utilisation,busy_flops_"
        "utilisation,memory_utilisation,compute_bound,memory_bound,launch_bound,intensity,placed_"
        "by,point,graph.seed");
  // 64 MiB x 0.1, rounded down
  CHECK(result_cells(results, results.rows.front())[8] == "6710886");
  CHECK(result_cells(results, results.rows.back())[40] == "2");
}

TEST_CASE("out of memory names the device, the op, its need and the free memory") {
  // Two ops of 3 and 4 bytes of weights on devices of 5: weights are accounted for first.
  const TemporaryFolder folder;
  write_graph(folder.file("t.json"), "a1k,w3; b2k,w4", "heavy");
  const Results results = run_all(sweep_of(R"(
graph: {import: t.json}
cluster: {devices: {count: 2, memory: 5 B}, link: {bandwidth: 1 GB/s}}
placers: [single, round_robin]
)",
                                           {}, folder.file("s.yaml")));
  REQUIRE(results.rows.size() == 2);
  CHECK(results.rows[0].status == Status::oom);
  CHECK(results.rows[0].detail ==
        "gpu0: op 'b' needs 4 B, 2 B is free of 5 B at 0 ns (live: weights 3 B, outputs 0 B, "
        "copies 0 B, workspace 0 B)");
  CHECK_FALSE(results.rows[0].value.has_value());
  CHECK(results.rows[1].status == Status::ok);
  CHECK(results.rows[1].value == 2us);
  const std::string csv = to_csv(results);
  CHECK(holds(csv, "1,s,heavy,2,round_robin,0,2,1.0,5,sequential,ok,2.000,2.000,"));
  CHECK(holds(csv, ",\"gpu0: op 'b' needs 4 B, "));
}

TEST_CASE("a run with an error is one row, and the others continue") {
  const TemporaryFolder folder;
  write_graph(folder.file("t.json"), "a1k", "g");
  const Results results = run_all(sweep_of(R"(
graph: {import: t.json}
cluster: {devices: {memory: 5 B}}
placers: [{exec: {path: /nowhere/at/all}}, single, {single: {device: 7}}]
)",
                                           {}, folder.file("s.yaml")));
  REQUIRE(results.rows.size() == 3);
  CHECK(results.rows[0].status == Status::error);
  CHECK(holds(results.rows[0].detail, "/nowhere/at/all"));
  CHECK(results.rows[1].status == Status::ok);
  CHECK(results.rows[2].status == Status::infeasible);
  CHECK(results.rows[2].detail == "single: no device 7 among 1");
  CHECK(results.rows[2].placer == "single:device=7");
}

TEST_CASE("a cell that a spreadsheet would run as a formula begins with an apostrophe") {
  CHECK(csv_cell("=HYPERLINK(1)", ColumnType::text) == "'=HYPERLINK(1)");
  CHECK(csv_cell("@x,\"y\"", ColumnType::text) == "\"'@x,\"\"y\"\"\"");
  CHECK(csv_cell("-cmd", ColumnType::text) == "'-cmd");
  CHECK(csv_cell("-2.5", ColumnType::text) == "-2.5");  // a swept number
  CHECK(csv_cell("-3", ColumnType::whole) == "-3");
  CHECK(csv_cell("m_etf", ColumnType::text) == "m_etf");
}

TEST_CASE("results that are damaged or of another program are refused by name") {
  const TemporaryFolder folder;
  const Results results = run_all(sweep_of(swept, {"seeds=[1]"}), {.threads = 1});
  write_results(folder.file("r"), results);
  const std::string whole = folder.read("r/results.sqlite");
  const std::string csv = to_csv(results);
  std::size_t refused = 0;
  for (std::size_t at = 50; at < whole.size(); at += whole.size() / 150) {
    CAPTURE(at);
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x11);
    folder.write("r/results.sqlite", bytes);
    try {
      const Results read = read_results(folder.file("r"));
      // The byte was not in a value: half of such a small file is unused parts of pages.
      CHECK(to_csv(read) == csv);
      for (std::size_t i = 0; i < results.rows.size(); ++i) {
        CHECK(read.rows[i].facts == results.rows[i].facts);
        CHECK(read.rows[i].placement == results.rows[i].placement);
      }
    } catch (const InputError& e) {
      CHECK(std::string(e.what()).starts_with(folder.file("r/results.sqlite") + ": "));
      ++refused;
    }
  }
  CHECK(refused > 30);
}

TEST_CASE("a malformed or deeply nested picture in a file is refused") {
  const TemporaryFolder folder;
  Results results = run_all(sweep_of(swept, {"seeds=[1]"}), {.threads = 1});
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& picture : {nested, std::string("[]"), std::string("no JSON")}) {
    results.rows.front().picture = picture;
    {
      SqliteRows rows(folder.file("results.sqlite"), results);
      for (const RunResult& row : results.rows) rows.add(row, result_cells(results, row));
      rows.end();
    }
    CHECK_REFUSED(read_results(folder.file("")), doctest::Contains("the picture of a step is"));
  }
  for (const char* picture :
       {"{}", R"({"ns": 1, "quantum": 1, "unit": 1, "oom": {"device": 3}, "devices": []})"})
    CHECK_REFUSED(step_csv(picture), doctest::Contains("the picture of a step is"));
}

TEST_CASE("results are read back unchanged") {
  const TemporaryFolder folder;
  const Results results = run_all(sweep_of(swept), {.threads = 1});
  write_results(folder.file("r"), results);
  const Results read = read_results(folder.file("r"));
  CHECK(to_csv(read) == to_csv(results));
  CHECK(to_html(read) == to_html(results));
  CHECK(read.rows[1].placement == results.rows[1].placement);
  CHECK(read.rows[1].placement.size() == 200);
  CHECK(read.graphs[0].op_names == results.graphs[0].op_names);
  CHECK(std::ranges::count(read.graphs[0].op_names, '\n') == 200);
  CHECK_THROWS_AS(read_results(folder.file("none")), InputError);
  std::filesystem::create_directories(folder.file("x"));
  folder.write("x/results.sqlite", "not a database, though it has the name of one");
  CHECK_REFUSED(read_results(folder.file("x")), doctest::Contains("not results of this program"));
}

TEST_CASE("tables have a row per placer and a column per point, the best of each bold") {
  const Sweep sweep = sweep_of(R"(
name: small
graph: {generate: layered, ops: 50}
cluster: {devices: {memory: 8 GiB}}
placers: [single, m_topo]
sweep: {cluster.memory_fraction: [0.5, 1.0]}
)");
  const Results results = run_all(sweep, {.threads = 1});
  const std::vector<ResultTable> tables = result_tables(results);
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].axes == std::vector<std::string>{"memory fraction"});
  CHECK(tables[0].columns == std::vector<std::vector<std::string>>{{"0.5"}, {"1.0"}});
  REQUIRE(tables[0].rows.size() == 2);
  CHECK(tables[0].rows[1].name == "m_topo");
  CHECK(tables[0].best(0) == tables[0].rows[0].cells[0]);
  CHECK(holds(to_text_tables(overview(results), true), "\x1b[1m"));
  CHECK(to_text_tables(overview(results), false).find('\x1b') == std::string::npos);
  const std::string html = to_html(results);
  for (const char* outside : {" src=", " href=", "<link", "@import", "url("})
    CHECK_FALSE(holds(html, outside));
}

TEST_CASE("short times keep three digits") {
  CHECK(short_text(999ns) == "999 ns");
  CHECK(short_text(1000ns) == "1.00 us");
  CHECK(short_text(12'345ns) == "12.3 us");
  CHECK(short_text(999'999ns) == "1.00 ms");
  CHECK(short_text(123'456us) == "123 ms");
  CHECK(short_text(2s) == "2.00 s");
}
