#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "placers/registry.h"
#include "tests/scenarios/cli/session.h"
#include "tests/sim/report/timeline_checks.h"
#include "tests/this_build.h"
#include "traces/format/compressed_file.h"
#include "traces/generator.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

namespace {

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

bool has_keys(const Json& object, const std::vector<std::string>& wanted) {
  return std::ranges::all_of(wanted, [&](const std::string& key) { return object.contains(key); });
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("every verb explains itself") {
    const Session session;
    CHECK(session.run("--help").code == 0);
    CHECK(session.run("--version").out.starts_with("baechi " + version()));
    for (const char* verb : {"run", "place", "simulate", "explain", "compare", "duel", "arena",
                             "train", "bound", "trace", "list", "report", "schema", "trace info",
                             "trace check", "trace convert", "trace generate"}) {
      CAPTURE(verb);
      const auto help = session.run(std::string(verb) + " --help");
      CHECK(help.code == 0);
      CHECK(help.err.empty());
      CHECK(holds(help.out, "baechi"));
    }
    for (const char* verb : {"run", "place", "simulate", "bound", "list"}) {
      CAPTURE(verb);
      CHECK(holds(session.run(std::string(verb) + " --help").out, "Example"));
    }
  }

  TEST_CASE("a mistyped verb, flag or value is the user's mistake, with the nearest that exists") {
    const Session session;
    const struct {
      std::string arguments, message;
    } mistakes[] = {
        {"", "simulate"},
        {"simulat toy.json", "no verb 'simulat' (did you mean 'simulate'?)"},
        {"trace inof toy.json", "no verb 'inof' (did you mean 'info'?)"},
        {"bound toy.json --devcies 2 --memory 1GB",
         "no flag '--devcies' (did you mean '--devices'?)"},
        {"bound toy.json --devcies=2 --memory 1GB",
         "no flag '--devcies' (did you mean '--devices'?)"},
        {"bound toy.json --format jsn " + two_gpus, "'jsn' is not one of table, json"},
        {"bound toy.json " + two_gpus + " --transfers dupelx", "(did you mean 'duplex'?)"},
        {"bound toy.json --devices 2", "--memory is missing, such as '--memory '8 GiB''"},
        {"bound toy.json --devices 2 --memory 8", "--memory: '8' is not a size such as '8 GiB'"},
        {"bound toy.json --devices two --memory 8GB", "--devices: 'two' is not a whole number"},
        {"bound toy.json --devices 0 --memory 8GB", "at least one device"},
        {"bound toy.json " + two_gpus + " --memory-fraction 2", "(0, 1]"},
        {"bound toy.json " + two_gpus + " --scenario x.yaml", "--scenario"},
        {"bound toy.json --devices 2 --memory 8 GiB", "'GiB' is a word too many"},
        {"bound nowhere.json " + two_gpus, "nowhere.json"},
        {"bound toy.json --scenario nowhere.yaml", "nowhere.yaml"},
        {"place toy.json --placer m_tpo " + two_gpus, "no placer 'm_tpo' (did you mean 'm_topo'?)"},
        {"place toy.json --placer single:devise=1 " + two_gpus,
         "--placer: single has no option 'devise' (did you mean 'device'?)"},
        {"place toy.json --placer single:device " + two_gpus, "'device' is not key=value"},
        {"place toy.json --placer single:device=1,device=0 " + two_gpus, "'device' is given twice"},
        {"place toy.json --placer single --seed x " + two_gpus, "--seed"},
        {"place toy.json --placer single -o no/where.json " + two_gpus, "no/where.json"},
        {"simulate toy.json --placement nowhere.json " + two_gpus, "nowhere.json"},
        {"simulate toy.json --placement split.json --devices 1 --memory 1GB", "split.json"},
        {"simulate toy.json --placement split.json --timeline no/where.json " + two_gpus,
         "no/where.json"},
        {"trace convert toy.json toy.xml", "'toy.xml' does not say the format"},
        {"trace generate layred", "(did you mean 'layered'?)"},
        {"trace generate layered ops=many", "layered.ops: 'many' is not"},
        {"list placer", "nothing called 'placer' (did you mean 'placers'?)"},
    };
    for (const auto& [arguments, message] : mistakes) {
      CAPTURE(arguments);
      const auto result = session.run(arguments);
      CAPTURE(result.err);
      CHECK(result.code == 2);
      CHECK(result.out.empty());
      CHECK(holds(result.err, message));
    }
  }

  TEST_CASE("several wrong flags are told at once") {
    const auto result = Session().run("bound toy.json --devices x --bandwidth 5 --semantics evnt");
    CHECK(result.code == 2);
    for (const char* part : {"--memory is missing", "'x'", "'5'", "(did you mean 'event'?)"})
      CHECK(holds(result.err, part));
  }

  TEST_CASE("simulate tells time, bound, devices and traffic") {
    const Session session;
    const Json step = session.json("simulate toy.json --placement split.json " + two_gpus);
    CHECK(has_keys(step, {"status", "step_time_us", "lower_bound_us", "devices", "moved_bytes",
                          "transfers", "events", "oom"}));
    CHECK(step["status"] == "ok");
    CHECK(step["step_time_us"] == 61.0);    // a 10, its 1000 B at 1 GB/s 1, then b 20 and c 30
    CHECK(step["lower_bound_us"] == 40.0);  // a, then c
    CHECK(step["moved_bytes"] == 1000);
    CHECK(step["transfers"] == 1);
    CHECK(step["events"] == 4);
    CHECK(step["oom"].is_null());
    REQUIRE(step["devices"].size() == 2);
    CHECK(step["devices"][0]["busy_us"] == 10.0);
    CHECK(step["devices"][1]["busy_us"] == 50.0);
    CHECK(step["devices"][1]["peak_bytes"] == 1000);
    CHECK(step["devices"][1]["limit_bytes"] == 1000000);

    const std::string table =
        session.run("simulate toy.json --placement split.json " + two_gpus).out;
    CHECK(holds(table, "61.000 us, 1.52 x the lower bound"));
    CHECK(holds(table, "40.000 us (critical path)"));
    CHECK_FALSE(holds(table, "\x1b"));  // not a terminal
  }

  TEST_CASE("without cache the tensor crosses once per reader") {
    const Json step =
        Session().json("simulate toy.json --placement split.json --no-cache " + two_gpus);
    CHECK(step["transfers"] == 2);
    CHECK(step["moved_bytes"] == 2000);
  }

  TEST_CASE("the link's defaults are Baechi's fit") {
    const Json step =
        Session().json("simulate toy.json --placement split.json --devices 2 --memory '1 MB'");
    // 10 + 134 + ceil(1000 / 5.7) ns + 20 + 30
    CHECK(step["step_time_us"] == 194.176);
  }

  TEST_CASE("running out of memory is an answer: who asked, and what was live") {
    const Session session;
    const std::string tight =
        "simulate toy.json --placement split.json --devices 2 --memory '999 B'";
    const Json step = session.json(tight);
    CHECK(step["status"] == "oom");
    CHECK(step["step_time_us"].is_null());
    CHECK(has_keys(step["oom"], {"device", "op", "needed_bytes", "free_bytes", "at_us", "live"}));
    CHECK(step["oom"]["device"] == 0);
    CHECK(step["oom"]["op"] == "a");
    CHECK(step["oom"]["needed_bytes"] == 1000);
    CHECK(step["oom"]["free_bytes"] == 999);
    CHECK(step["oom"]["at_us"] == 0.0);
    CHECK(keys(step["oom"]["live"]) ==
          std::vector<std::string>{"copies", "outputs", "weights", "workspace"});
    CHECK(holds(
        session.run(tight).out,
        "out of memory on gpu0 at 0 ns: op 'a': 1000 B needed, of 999 B only 999 B are free"));
  }

  TEST_CASE("explain: the critical path adds up to the step, and says what was waited for") {
    // a 0-10, its 1000 B 10-11, b 11-31, c 31-61.
    const Session session;
    const Json json = session.json("explain toy.json --placement split.json " + two_gpus);
    CHECK(json["step_time_us"] == 61.0);
    double sum = 0.0, what_if = 0.0;
    std::vector<std::string> kinds;
    for (const Json& part : json["critical_path"]) {
      sum += part["us"].get<double>();
      kinds.push_back(part["kind"]);
    }
    CHECK(sum == doctest::Approx(61.0));
    CHECK(kinds == std::vector<std::string>{"compute", "transfer", "wait_device", "compute"});
    CHECK(json["critical_path"][2]["behind"] == "b");
    for (const Json& part : json["what_if"]) what_if += part["us"].get<double>();
    CHECK(what_if == doctest::Approx(61.0));
    const auto text = session.run("explain toy.json --placement split.json " + two_gpus);
    CHECK(holds(text.out, "'c', behind 'b' on gpu1"));
  }

  TEST_CASE("explain: at out of memory, what was live and who keeps it") {
    // The copy of a's 1000 B does not fit beside the 1.5 MB of workspace that gpu1 holds for x.
    const Session session;
    session.folder().write("tight.json",
                           R"({"format": "baechi-trace", "version": 1, "name": "tight",
 "ops": [{"name": "x", "compute_us": 50, "temporary_bytes": 999500},
         {"name": "a", "compute_us": 10, "outputs": [{"bytes": 1000}]},
         {"name": "b", "compute_us": 20}],
 "edges": [{"from": "a", "output": 0, "to": "b"}]})");
    session.folder().write("apart.json",
                           R"({"format": "baechi-placement", "version": 1, "graph": "tight",
 "devices": 2, "placement": {"x": 1, "a": 0, "b": 1}})");
    const Json json = session.json("explain tight.json --placement apart.json " + two_gpus);
    CHECK(json["status"] == "oom");
    CHECK(json["step_time_us"].is_null());
    CHECK(json["without_limit_us"] == 70.0);  // x 0-50, b 50-70
    REQUIRE(json["oom"]["live"].size() == 1);
    CHECK(json["oom"]["live"][0]["kind"] == "workspace");
    CHECK(json["oom"]["live"][0]["name"] == "x");
  }

  TEST_CASE("compare: a placer against itself and others, from folders of results") {
    const Session session;
    session.folder().write("s.yaml", R"(
name: s
graph: {generate: layered, ops: 40}
cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}
placers: [single, {name: twin, single: {}}, m_etf]
sweep: {graph.seed: [1, 2, 3]}
)");
    REQUIRE(session.run("run s.yaml --out one --quiet").code == 0);
    const Json json = session.json("compare one");
    REQUIRE(json["placers"].size() == 3);
    CHECK(has_keys(json["placers"][0], {"name", "solved", "oom", "infeasible", "ratio_to_best"}));
    CHECK(json["graphs"] == 3);
    for (const Json& pair : json["pairs"]) {
      if (pair["a"] != "single" || pair["b"] != "twin") continue;
      CHECK(pair["ties"] == 3);
      CHECK(pair["ratio"] == 1.0);
      CHECK(pair["p"] == 1.0);
    }
    CHECK(session.json("compare one --replicate graph.seed")["graphs"] == 1);
    CHECK(session.run("compare one --replicate graph.ops").code == 2);
    CHECK(session.run("compare one --tolerance much").code == 2);
    REQUIRE(session.run("run s.yaml --out two --quiet").code == 0);
    CHECK(holds(session.run("compare one two").out, "m_etf (two)"));
  }

  TEST_CASE("arena: a placer's score, its rank, and best values that are kept if better") {
    const Session session;
    std::filesystem::create_directories(session.folder().file("mine/instances"));
    session.folder().write("mine/instances/a.yaml", R"(
name: a.v1
graph: {generate: layered, ops: 40}
cluster: {devices: {count: 2, memory: 1 GiB}}
placers: [single]
sweep: {cluster.link.bandwidth: [1 MB/s, 100 GB/s]}
)");
    const auto arena = [&](const std::string& rest) {
      const auto result = session.run("arena --instances mine --json --placer " + rest);
      REQUIRE(result.code == 0);
      return Json::parse(result.out);
    };
    const Json first = arena("round_robin --update-best");
    CHECK(has_keys(first, {"score", "instances", "solved", "failures", "placing_s", "rank"}));
    CHECK(first["instances"] == 2);
    CHECK(first["score"] == 1.0);
    const Json other = arena("single");
    CHECK(other["score"].get<double>() > 1.0);  // one device does all
    CHECK(other["rank"].get<int>() == 2);
    CHECK(other["ranking"].size() == 2);
    CHECK(arena("round_robin")["ranking"].size() == 1);  // single was not kept
    CHECK(session.run("arena --instances nowhere --placer single").code == 2);
  }

  TEST_CASE("place without a placer takes the best of the quick ones, and says which") {
    const Session session;
    const Json placed = session.json("place toy.json " + two_gpus);
    CHECK(placed["placer"] == "auto");
    CHECK(holds(placed["detail"].get<std::string>(), " asked, "));
    CHECK(placed["step_time_us"] <=
          session.json("place toy.json --placer m_etf " + two_gpus)["step_time_us"]);
  }

  TEST_CASE("duel finds an instance, and writes it as a scenario with both steps") {
    const Session session;
    const Json found = session.json("duel single m_etf --evaluations 60 --seed 2 -o fought");
    CHECK(found["ratio"] > 1.0);
    CHECK(session.run("run fought/duel.yaml --out again").code == 0);
  }

  TEST_CASE("place writes a file that simulate reads") {
    const Session session;
    const Json placed =
        session.json("place toy.json --placer single:device=1 -o placed.json " + two_gpus);
    CHECK(has_keys(placed, {"format", "version", "graph", "devices", "placement", "placer",
                            "placing_ms", "status", "detail", "step_time_us"}));
    CHECK(placed["format"] == "baechi-placement");
    CHECK(placed["graph"] == "toy");
    CHECK(placed["devices"] == 2);
    CHECK(placed["placement"] == Json{{"a", 1}, {"b", 1}, {"c", 1}});
    CHECK(placed["placer"] == "single:device=1");
    CHECK(placed["status"] == "ok");
    CHECK(placed["step_time_us"] == 60.0);
    const Json step = session.json("simulate toy.json --placement placed.json " + two_gpus);
    CHECK(step["step_time_us"] == placed["step_time_us"]);
    CHECK(step["devices"][0]["busy_us"] == 0.0);
  }

  TEST_CASE("what place prints as JSON is a placement file too") {
    const Session session;
    for (const PlacerEntry& entry : placers()) {
      if (entry.name == "exec" || entry.name == "expert") continue;  // they need to be told what
      if (entry.make_planner) continue;                              // of files of another kind
      CAPTURE(entry.name);
      const auto placed = session.run("place toy.json --format json --placer " +
                                      std::string(entry.name) + " " + two_gpus);
      REQUIRE(placed.code == 0);
      session.folder().write("placed.json", placed.out);
      CHECK(session.json("simulate toy.json --placement placed.json " + two_gpus)["step_time_us"] ==
            Json::parse(placed.out)["step_time_us"]);
    }
  }

  TEST_CASE("that nothing fits is an answer, and no file is written") {
    const Session session;
    const std::string tight =
        "place toy.json --placer m_topo -o placed.json --devices 2 --memory '999 B'";
    const Json placed = session.json(tight);
    CHECK(placed["status"] == "infeasible");
    CHECK(placed["detail"] != "");
    CHECK(placed["step_time_us"].is_null());
    CHECK(placed["placement"].empty());
    CHECK(session.folder().read("placed.json").empty());
    CHECK(holds(session.run(tight).out, "infeasible"));
  }

  TEST_CASE("a placement that runs out of memory has no step time and says why") {
    const Session session;
    const Json placed = session.json("place toy.json --placer single --devices 2 --memory '999 B'");
    CHECK(placed["status"] == "oom");
    CHECK(placed["step_time_us"].is_null());
    CHECK(holds(placed["detail"].get<std::string>(), "out of memory on gpu0"));
    session.folder().write("oom.json", placed.dump());  // is a placement file all the same
    CHECK(session.json("simulate toy.json --placement oom.json " + two_gpus)["status"] == "ok");
  }

  TEST_CASE("a program of one's own can be the placer") {
    const Session session;
    session.folder().write("mine.sh", "#!/bin/sh\ncat >/dev/null\ncat split.json\n");
    const auto placed =
        session.run("place toy.json --format json --placer exec:./mine.sh " + two_gpus,
                    "chmod +x mine.sh && {}");
    CAPTURE(placed.err);
    REQUIRE(placed.code == 0);
    CHECK(Json::parse(placed.out)["placement"] == Json{{"a", 0}, {"b", 1}, {"c", 1}});
  }

  TEST_CASE("simulate streams micro-batches through the stages") {
    const Session session;
    session.folder().write("stages.json", R"({"format": "baechi-placement", "version": 1,
        "devices": 2, "placement": {"a": 0, "b": 1, "c": 1}})");
    const std::string simulate = "simulate toy.json --placement stages.json " + two_gpus;
    const Json json =
        session.json(simulate + " --pipeline inference --micro-batches 20")["pipeline"];
    CHECK(json["scheme"] == "inference");
    CHECK(json["micro_batches"] == 20);
    CHECK(json["status"] == "ok");
    CHECK(json["per_sample_us"] == 50.0);  // b and c, 20 + 30
    REQUIRE(json["stages"].size() == 2);
    CHECK(json["stages"][1]["busy_us"] == 1000.0);
    const auto refused = session.run(simulate + " --pipeline 1f1b");
    CHECK(refused.code == 2);
    CHECK(holds(refused.err, "1f1b is a schedule of training, and this graph is not training"));
    const auto wrong = session.run(simulate + " --pipeline gpip --micro-batches 0");
    CHECK(wrong.code == 2);
    CHECK(holds(wrong.err,
                "--pipeline: 'gpip' is not one of inference, gpipe, 1f1b, 1f1b_flush, 2bw, "));
    CHECK(holds(wrong.err, "--micro-batches: '0' is not a whole number"));
    CHECK(session.run(simulate + " --recompute").code == 2);
    REQUIRE(session.run(simulate + " --pipeline inference --timeline stages.trace.json").code == 0);
    CHECK(holds(session.folder().read("stages.trace.json"), "a#7"));
  }

  TEST_CASE("simulate streams the micro-batches of a training graph, by any schedule") {
    // Stage 0: f0 11 us, b0 22 us; stage 1: f1 7 us, b1 14 us. Stage 0 is always busy: 33 us.
    const Session session;
    session.folder().write("train.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "f0", "compute_us": 11, "persistent_bytes": 10, "outputs": [{"bytes": 0}]},
        {"name": "f1", "compute_us": 7, "persistent_bytes": 10, "outputs": [{"bytes": 0}]},
        {"name": "b1", "phase": "backward", "compute_us": 14, "outputs": [{"bytes": 0}]},
        {"name": "b0", "phase": "backward", "compute_us": 22}],
        "edges": [{"from": "f0", "to": "f1"}, {"from": "f1", "to": "b1"}, {"from": "b1", "to": "b0"},
                  {"from": "f0", "to": "b0"}]})");
    session.folder().write("line.json", R"({"format": "baechi-placement", "version": 1,
        "placement": {"f0": 0, "f1": 1, "b1": 1, "b0": 0}})");
    const std::string simulate = "simulate train.json --placement line.json " + two_gpus;
    const Json json = session.json(simulate + " --pipeline 1f1b --micro-batches 40")["pipeline"];
    CHECK(json["per_sample_us"] == 33.0);
    CHECK(json["difference"] == "as the objective says");
    CHECK(json["persistent_of_one_kind"] == true);
    CHECK(json["stages"][0]["in_flight"] == 2);
    const auto table = session.run(simulate + " --pipeline 1f1b");
    CHECK(holds(table.out, "1f1b, 8 micro-batches, 2 stages"));
    CHECK(holds(table.out, "the graph does not tell weights from gradients"));
    for (const char* schedule :
         {"gpipe", "1f1b_flush", "2bw", "zb_h1", "zb_h2", "zb_v", "dualpipe"})
      CHECK(session.json(simulate + " --pipeline " + schedule)["pipeline"]["scheme"] == schedule);
    const auto wrong = session.run(simulate + " --pipeline interleaved");
    CHECK(wrong.code == 2);
    CHECK(holds(wrong.err, "interleaved needs two chunks or more on each device"));
    CHECK(holds(session.run("simulate --help").out, "zb_h1"));
  }

  TEST_CASE("bound tells which bound binds, and whether memory can suffice") {
    const Session session;
    const Json bounds = session.json("bound toy.json " + two_gpus);
    CHECK(bounds["lower_bound_us"] == 40.0);
    CHECK(bounds["binding"] == "critical path");
    CHECK(bounds["critical_path_us"] == 40.0);
    CHECK(bounds["work_us"] == 30.0);  // 60 us on two devices
    CHECK(bounds["fits_in_memory"] == true);
    CHECK(bounds["devices_needed"] == 0);
    CHECK(bounds["max_load"]["lower_bound_us"] == 30.0);
    CHECK(bounds["max_load"]["binding"] == "work");
    CHECK(bounds["latency"]["lower_bound_us"] == 40.0);
    const Json solved = session.json("bound toy.json --time-limit '1 s' " + two_gpus);
    CHECK(solved["max_load"]["integer_program_us"] >= 30.0);
    CHECK(session.run("bound toy.json --time-limit soon " + two_gpus).code == 2);
    CHECK(holds(session.run("bound toy.json --devices 2 --memory '999 B'").out, "too small"));
  }

  TEST_CASE("a workload that names its own cluster runs there unless another is given") {
    //   x(1 ms, a core 5) -2 ms-> y(2 ms, a core 6), sent in 2 ms: one accelerator, one core
    const Session session;
    session.folder().write("msr.json", R"({"maxSizePerFPGA": 100, "maxFPGAs": 1, "maxCPUs": 1,
      "nodes": [{"name": "x", "id": 1, "cpuLatency": 5, "fpgaLatency": 1, "size": 60},
                {"name": "y", "id": 2, "cpuLatency": 6, "fpgaLatency": 2, "size": 70}],
      "edges": [{"sourceId": 1, "destId": 2, "cost": 2, "size": 10}]})");
    session.folder().write("p.json", R"({"format": "baechi-placement", "version": 1,
      "placement": {"x": 1, "y": 0}})");
    const Json load = session.json("simulate msr.json --placement p.json --objective max_load");
    CHECK(load["max_load_us"] == 5000.0);  // the core's; the accelerator has 2 + 2
    CHECK(load["feasible"] == true);
    CHECK(load["step_time_us"] == 9000.0);  // 5 + 2 + 2
    CHECK(load["devices"][0]["name"] == "accelerator0");
    const Json latency = session.json("simulate msr.json --placement p.json --objective latency");
    CHECK(latency["latency_us"] == 9000.0);
    CHECK(session.json("bound msr.json")["work_us"] > 0);
    CHECK(session.json("place msr.json --placer single")["step_time_us"] ==
          Json());  // out of memory
    CHECK(session.json("place msr.json --placer single:device=1")["step_time_us"] == 11000.0);
    // With flags the devices are those, and so is the link: 10 B in 10 ns.
    CHECK(session.json("simulate msr.json --placement p.json " + two_gpus)["step_time_us"] ==
          3000.01);
    CHECK(holds(session.run("bound msr.json --bandwidth '1 GB/s'").err, "--devices is missing"));
    CHECK(holds(session.run("bound toy.json").err, "--devices is missing"));
    CHECK(holds(session.run("simulate msr.json --placement p.json --objective latnecy").err,
                "no objective 'latnecy' (did you mean 'latency'?)"));
  }

  TEST_CASE("a scenario's cluster and engine stand in for the flags") {
    const Session session;
    session.folder().write("s.yaml",
                           "graph: {import: toy.json}\n"
                           "cluster:\n"
                           "  devices: {count: 2, memory: 1 MB}\n"
                           "  link: {bandwidth: 1 GB/s, latency: 0}\n"
                           "placers: [single]\n"
                           "sweep: {engine.cache_tensors: [false, true]}\n");
    const std::string simulate = "simulate toy.json --placement split.json --scenario s.yaml";
    CHECK(session.json(simulate)["transfers"] == 2);
    CHECK(holds(session.run(simulate).err, "--set 'engine.cache_tensors=false'"));
    const Json cached = session.json(simulate + " --set engine.cache_tensors=true");
    CHECK(cached["transfers"] == 1);
    CHECK(cached["step_time_us"] == 61.0);
  }

  TEST_CASE("a scenario's transforms hold for place, simulate and bound alike") {
    // a(10) --> b(20), and c(30) with no edge, which prune drops.
    const Session session;
    session.folder().write("loose.json", R"({"format": "baechi-trace", "version": 1, "ops": [
      {"name": "a", "compute_us": 10, "outputs": [{"bytes": 1}]},
      {"name": "b", "compute_us": 20}, {"name": "c", "compute_us": 30}],
      "edges": [{"from": "a", "output": 0, "to": "b"}]})");
    session.folder().write("s.yaml",
                           "graph: {import: loose.json}\n"
                           "transforms: [prune]\n"
                           "cluster: {devices: {memory: 1 MB}}\n"
                           "placers: [single]\n");
    const std::string scenario = " --scenario s.yaml";
    const Json placed = session.json("place loose.json --placer single -o p.json" + scenario);
    CHECK(placed["step_time_us"] == 30.0);
    CHECK_FALSE(placed["placement"].contains("c"));
    CHECK(session.json("simulate loose.json --placement p.json" + scenario)["step_time_us"] ==
          30.0);
    CHECK(session.json("bound loose.json" + scenario)["work_us"] == 30.0);
    CHECK(session.json("bound loose.json" + scenario + " --set transforms=none")["work_us"] ==
          60.0);
    const Json other =
        session.json("place loose.json --placer single --transform coplace" + scenario);
    CHECK(other["step_time_us"] == 60.0);  // --transform stands in for the scenario's
  }

  TEST_CASE("trace info counts, and says how much is known") {
    const Session session;
    const Json info = session.json("trace info toy.json");
    CHECK(info["name"] == "toy");
    CHECK(info["ops"] == 3);
    CHECK(info["edges"] == 2);
    CHECK(info["tensors"] == 1);
    CHECK(info["groups"] == 0);
    CHECK(info["critical_path_us"] == 40.0);
    CHECK(info["compute_us"] == 60.0);
    CHECK(info["output_bytes"] == 1000);
    CHECK(info["coverage"]["ops"] == 3);
    CHECK(info["coverage"]["with_time"] == 3);
    CHECK(holds(session.run("trace info toy.json").out, "times 3/3"));
  }

  TEST_CASE("trace check reports every mistake of every file, and what is not known") {
    const Session session;
    session.folder().write("bad.json",
                           R"({"format": "baechi-trace", "version": 1,
 "ops": [{"name": "a", "compute_us": -1}, {"name": "b", "compute_us": 1, "colour": "red"}],
 "edges": [{"from": "a", "output": 0, "to": "z"}]})");
    const auto bad = session.run("trace check toy.json bad.json");
    CHECK(bad.code == 2);
    CHECK(holds(bad.out, "toy.json: ok, 3 ops, 2 edges"));
    CHECK(holds(bad.err, "bad.json:2:"));
    CHECK(holds(bad.err, "colour"));
    CHECK(holds(bad.err, "bad.json:3:"));

    session.folder().write("bare.json", R"({"format": "baechi-trace", "version": 1,
 "ops": [{"name": "a", "compute_us": 0}], "edges": []})");
    const auto bare = session.run("trace check bare.json");
    CHECK(bare.code == 0);
    CHECK(holds(bare.out, "warning: no op has a time"));
    CHECK(holds(bare.out, "warning: no tensor has a size"));
  }

  TEST_CASE("a graph converted is the same graph") {
    const Session session;
    Json before = session.json("trace info toy.json");
    for (const char* name : {"copy.json", "copy.json.gz", "copy.json.zst"}) {
      CAPTURE(name);
      CHECK(session.run(std::string("trace convert toy.json ") + name).code == 0);
      CHECK(session.json(std::string("trace info ") + name) == before);
    }
    CHECK(session.run("trace convert toy.json toy.dot").code == 0);
    CHECK(holds(session.folder().read("toy.dot"), "n0 -> n2"));
    CHECK(session.run("trace convert toy.json toy.graphml").code == 0);
    CHECK(holds(session.folder().read("toy.graphml"),
                "<edge id=\"e1\" source=\"n0\" target=\"n2\">"));
  }

  TEST_CASE("generate writes a file, or standard output") {
    const Session session;
    CHECK(session.run("trace generate layered ops=50 -o g.json.zst").code == 0);
    CHECK(session.json("trace info g.json.zst")["ops"] == 50);
    const auto printed = session.run("trace generate layered ops=50");
    session.folder().write("g.json", printed.out);
    CHECK(session.json("trace info g.json") == session.json("trace info g.json.zst"));
  }

  TEST_CASE("list has everything that is registered, with its options") {
    const Session session;
    const Json all = session.json("list");
    CHECK(has_keys(all, {"placers", "transforms", "generators", "importers", "devices", "scenarios",
                         "papers"}));
    CHECK(all["placers"].size() == placers().size());
    CHECK(all["generators"].size() == generators().size());
    CHECK(all["importers"].size() == importers().size());
    CHECK(all["placers"][0]["name"] == placers().front().name);
    CHECK(all["placers"][0]["options"][0]["name"] == "device");
    CHECK(keys(session.json("list placers")) == std::vector<std::string>{"placers"});
    for (const PlacerEntry& entry : placers()) {
      CAPTURE(entry.name);
      CHECK(holds(session.run("list placers").out, entry.name));
      CHECK(holds(session.run("list placers --format markdown").out,
                  "| `" + std::string(entry.name) + "` |"));
    }
  }

  TEST_CASE("a timeline's op slices add up to busy, and never overlap on a lane") {
    const Session session;
    REQUIRE(session.run("trace generate layered ops=200 -o g.json").code == 0);
    REQUIRE(
        session.run("place g.json --placer random -o p.json --devices 3 --memory '64 GiB'").code ==
        0);
    for (const char* mode :
         {"sequential", "parallel", "duplex", "shared", "sequential --semantics baechi",
          "parallel --semantics baechi", "duplex --no-overlap", "parallel --no-cache"}) {
      CAPTURE(mode);
      const Json step = session.json(
          "simulate g.json --placement p.json --timeline t.json.gz --devices 3 --memory '64 GiB' "
          "--transfers " +
          std::string(mode));
      auto computing = check_timeline(read_file(session.folder().file("t.json.gz")));
      for (std::size_t d = 0; d < 3; ++d) {
        CHECK(static_cast<double>(computing[static_cast<std::int64_t>(d)]) / 1e3 ==
              doctest::Approx(step["devices"][d]["busy_us"].get<double>()));
      }
    }
  }

  TEST_CASE("configure chooses instances, and tells where a file of latencies is wrong") {
    const Session session;
    session.folder().write("latencies.csv",
                           "model,threads,batch,mean_ms\n"
                           "small,1,1,6\nsmall,2,2,9\nlarge,2,2,30\n");
    // Two instances of one thread take 6 ms, one of two threads 9 ms.
    const Json all = session.json("configure latencies.csv --threads 2 --batch 2");
    REQUIRE(all["profiles"].size() == 2);
    const Json& large = all["profiles"][0]["configurations"][0];
    const Json& small = all["profiles"][1]["configurations"][0];
    CHECK(large["latency_ms"] == 30.0);
    CHECK(small["latency_ms"] == 6.0);
    CHECK(small["speed_up"] == 1.5);
    CHECK(small["instances"] == Json::parse(R"([{"count": 2, "threads": 1, "batch": 1}])"));
    // Disturbed by each other, the two take 12 ms.
    const Json disturbed = session.json(
        "configure latencies.csv --threads 2 --batch 2 --interference 2 --where model=small");
    REQUIRE(disturbed["profiles"].size() == 1);
    CHECK(disturbed["profiles"][0]["configurations"][0]["latency_ms"] == 9.0);

    session.folder().write("wrong.csv", "threads,batch,mean_ms\n1,0,6\n1,1,-6\n1,1\n");
    const auto wrong = session.run("configure wrong.csv --threads 2 --batch 2");
    CHECK(wrong.code == 2);
    CHECK(holds(wrong.err, "wrong.csv:2:3: batch: '0' is not a whole number from 1 to 65536"));
    CHECK(holds(wrong.err, "wrong.csv:3:5: mean_ms: '-6' is not a time above 0"));
    CHECK(holds(wrong.err, "wrong.csv:4:1: 2 cells, the first line has 3"));
  }

  TEST_CASE("exact_dp with replicas tells its stages, as planners do") {
    const Session session;
    // 60 us of ops on three devices.
    const Json answer = session.json(
        "place toy.json --placer exact_dp:replicate=true --devices 3 --memory '1 MB' --bandwidth "
        "'1 GB/s' --latency 0");
    CHECK(answer["time_per_sample_us"] == 20.0);
    REQUIRE(answer["plan"]["stages"].size() == 1);
    CHECK(answer["plan"]["stages"][0]["ops"] == Json::parse(R"(["a", "b", "c"])"));
    CHECK(answer["plan"]["stages"][0]["devices"] == Json::parse("[[0], [1], [2]]"));
    CHECK(holds(answer["detail"].get<std::string>(), "this placement's max_load is 60.000 us"));
    CHECK_FALSE(session.json("place toy.json --placer exact_dp " + two_gpus).contains("plan"));
  }

  TEST_CASE("plans are written, replayed on a virtual clock, calibrated and scored") {
    const Session session;
    session.folder().write(
        "s.yaml",
        "name: toy\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
        "engine: {transfers: duplex}\nplacers: [single, round_robin]\n");
    const auto planned = session.run("validate plan s.yaml -o r --budget 0.5");
    CHECK(planned.code == 0);
    CHECK(holds(planned.err, "toy.toy: 2 placements, 2 distinct"));
    CHECK(holds(planned.err, "r/plans: 4 plans of 2 runs\n"));
    // a on gpu0, b on gpu1, c on gpu0; the tensor crosses once, in 1 us.
    const std::string plan = session.folder().read("r/plans/0001_toy.toy_round_robin_0.plan");
    CHECK(holds(plan, "name toy.toy/round_robin/0\n"));
    CHECK(holds(plan, "transfer 1 0 1 0 1000 1000 after 0\n"));
    CHECK(session.run("validate report r").code == 2);
    CHECK(session.run("validate replay r --replays 3 --rounds 3").code == 0);
    CHECK(session.run("validate calibrate r").code == 0);
    const auto report = session.run("validate report r");
    CHECK(report.code == 0);
    CHECK(holds(report.out, "24 replays of 4 plans; 0 failed; 0 plans were not replayed"));
    CHECK(holds(session.folder().read("r/report.html"), "Predicted against measured: virtual"));
    CHECK(session.run("validate plan s.yaml -o r --calibration r/calibration.yaml").code == 0);
    session.folder().write("r/plans/broken.plan", "baechi-plan 1\nname a b\n");
    const auto broken = session.run("validate report r");
    CHECK(broken.code == 2);
    CHECK(holds(broken.err, "r/plans/broken.plan:2:1: 'name' with 1 value should stand here"));
  }

  TEST_CASE("a reader that goes away, or a closed or full output, is no crash") {
    const Session session;
    const auto gone = session.run("list --format markdown", "( {} ; echo $? >code.txt ) | true");
    CHECK(gone.err.empty());
    CHECK(session.folder().read("code.txt") == "0\n");
    CHECK(session.run("list", "{} >&-").code == 0);
    const auto full = session.run("list", "{} >/dev/full");
    CHECK(full.code == 1);
    CHECK(holds(full.err, "cannot write the answer"));
  }

  TEST_CASE("Ctrl-C ends with 130") {
    const Session session;
    session.folder().write("slow.sh", "#!/bin/sh\nexec sleep 3\n");
    CHECK(session
              .run("place toy.json --placer exec:./slow.sh " + two_gpus,
                   "chmod +x slow.sh && timeout --preserve-status -s INT 0.5 {}")
              .code == 130);
  }
}
