#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "placers/interface/registry.h"
#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

namespace {

/// The exit code, with the error output if it is not 0.
void runs(const Session& session, const std::string& arguments) {
  const auto result = session.run(arguments);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.code == 0);
}

/// Checks that the verbs with --placement read the file and agree on the step time.
void is_read(const Session& session, const std::string& trace, const std::string& flags,
             const std::string& placement, const Json& step_time) {
  CAPTURE(placement);
  const std::string rest = " " + flags + " --placement " + placement;
  CHECK(session.json("simulate " + trace + rest)["step_time_us"] == step_time);
  runs(session, "explain " + trace + rest);
  for (const std::string& placer :
       {"expert:file=" + placement, "search:start=" + placement + ",evaluations=5"})
    runs(session, "place " + trace + " " + flags + " --placer " + placer);
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("every file that place writes is read by the verbs with --placement") {
    const Session session;
    session.folder().write("work.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "kernels": [{"flops": 1000000, "traffic_bytes": 1000}]},
        {"name": "b", "kernels": [{"flops": 1000000, "traffic_bytes": 1000}]}]})");
    for (const PlacerEntry& entry : placers()) {
      const std::string name(entry.name);
      if (!entry.needs.empty() || name == "exec" || name == "expert") continue;
      CAPTURE(name);
      const std::string place = "place toy.json " + two_gpus + " --placer " + name;
      const Json answer = session.json(place + " -o file.json");
      session.folder().write("answer.json", answer.dump());
      if (answer["status"] != "ok") continue;
      for (const char* file : {"answer.json", "file.json"})
        CHECK(session.json("simulate toy.json " + two_gpus + " --placement " +
                           file)["step_time_us"] == answer["step_time_us"]);
    }
    // Times of the trace's only device type, of an assumed one, and of one without times.
    for (const auto& [trace, flags] : {std::pair<std::string, std::string>{"toy.json", two_gpus},
                                       {"work.json", two_gpus},
                                       {"toy.json", two_gpus + " --kind v100"}}) {
      CAPTURE(flags);
      const Json answer =
          session.json("place " + trace + " " + flags + " --placer heft -o file.json");
      session.folder().write("answer.json", answer.dump());
      is_read(session, trace, flags, "answer.json", answer["step_time_us"]);
      is_read(session, trace, flags, "file.json", answer["step_time_us"]);
    }
  }

  // 60 us of ops on three devices: 20 us per sample; on one device, 60.
  TEST_CASE("a file of place -o has the replicas, like the JSON output") {
    const Session session;
    const std::string gpus = "--devices 3 --memory '1 MB' --bandwidth '1 GB/s' --latency 0";
    const Json answer =
        session.json("place toy.json --placer exact_dp:replicate=true -o file.json " + gpus);
    session.folder().write("answer.json", answer.dump());
    for (const char* file : {"answer.json", "file.json"}) {
      CAPTURE(file);
      const Json step =
          session.json("simulate toy.json --objective max_load " + gpus + " --placement " + file);
      CHECK(step["max_load_us"] == 20.0);
      CHECK(
          holds(session.run("simulate toy.json " + gpus + " --placement " + file).out, "replicas"));
    }
  }

  TEST_CASE("every file that trace writes is read by trace, except DOT") {
    const Session session;
    for (const std::string ending : {"json", "json.gz", "json.zst", "graphml"}) {
      CAPTURE(ending);
      runs(session, "trace convert toy.json other." + ending);
      const Json info = session.json("trace info other." + ending);
      CHECK(info["ops"] == 3);
      runs(session, "trace convert other." + ending + " again.json");
      runs(session, "place again.json " + two_gpus);
    }
    runs(session, "trace generate layered ops=20 -o graph.json.zst");
    runs(session, "bound graph.json.zst " + two_gpus);
    runs(session, "trace convert toy.json toy.dot");
    CHECK(session.run("trace info toy.dot").code == 2);
  }

  TEST_CASE("folders of run, shards, duels, plans and policies are read by the other verbs") {
    const Session session;
    session.folder().write(
        "s.yaml",
        "name: s\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
        "placers: [single, m_etf]\n");
    runs(session, "run s.yaml --out all --quiet");
    for (const char* verb : {"report all", "compare all", "run s.yaml --out all --resume --quiet"})
      runs(session, verb);
    for (const std::string shard : {"1", "2"})
      runs(session, "run s.yaml --out part" + shard + " --quiet --shard " + shard + "/2");
    runs(session, "merge part1 part2 --out joined");
    CHECK(session.folder().read("joined/results.csv").size() > 100);
    runs(session, "compare all joined");

    runs(session, "validate plan s.yaml -o run");
    runs(session, "validate replay run");
    runs(session, "validate calibrate run");
    runs(session, "validate report run");
    session.folder().write("calibrated.yaml",
                           session.folder().read("s.yaml") + "calibration: run/calibration.yaml\n");
    runs(session, "run calibrated.yaml --out calibrated --quiet");

    runs(session,
         "plan "
         "gpt:num_hidden_layers=2,hidden_size=64,num_attention_heads=2,length=16,vocab_size=100 "
         "--batch 8 --devices 8 "
         "--nodes dgx_a100 --as a100_megatron --write-scenario plan.yaml");
    runs(session, "run plan.yaml --out planned --quiet");
    runs(session, "arena duel single m_etf --evaluations 40 -o duel");
    runs(session, "run duel/duel.yaml --out fought --quiet");
    runs(session, "arena --placer single --hidden 3 -o hidden");
    runs(session, "arena --placer single --instances hidden");
  }
}
