#include "tests/cli/session.h"

namespace {

/// s.yaml: three graphs on two devices.
void write_sweep(const Session& session, const std::string& placers) {
  session.write("s.yaml",
                "name: s\ngraph: {generate: layered, ops: 40}\nsweep: {graph.seed: [1, 2, 3]}\n"
                "cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}\n"
                "placers: " +
                    placers + "\n");
}

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "compare: a placer against itself and others, from folders") {
  write_sweep(*this, "[single, {name: twin, single: {}}, m_etf]");
  runs("run s.yaml --out one --quiet");
  const Json answer = json("compare one");
  REQUIRE(answer["placers"].size() == 3);
  CHECK(has_keys(answer["placers"][0], {"name", "solved", "oom", "infeasible", "ratio_to_best"}));
  CHECK(answer["graphs"] == 3);
  for (const Json& pair : answer["pairs"]) {
    if (pair["a"] != "single" || pair["b"] != "twin") continue;
    CHECK_PARTS(pair, R"({"ties": 3, "ratio": 1.0, "p": 1.0})");
  }
  CHECK(json("compare one --replicate graph.seed")["graphs"] == 1);
  CHECK(run("compare one --replicate graph.ops").code == 2);
  CHECK(run("compare one --tolerance much").code == 2);
  runs("run s.yaml --out two --quiet");
  CHECK(holds(run("compare one two").out, "m_etf (two)"));
}

TEST_CASE_FIXTURE(Session, "compare says what few graphs can show, and takes each folder once") {
  write_sweep(*this, "[single, round_robin, m_etf]");
  runs("run s.yaml --out one --quiet");
  CHECK(json("compare one")["least_p"] == 0.25);  // 2 / 2^3
  CHECK(holds(run("compare one").out,
              "3 graphs can show no p below 0.250, nor 3 pairs of placers one below 0.750"));
  const std::string latex = run("compare one --format latex").out;
  CHECK(latex.starts_with("\\begin{tabular}{lrrrrrrrrrr}\n\\hline\nplacer & ok & "));
  CHECK(holds(latex, "round\\_robin & "));
  CHECK(holds(latex, "95 \\% bootstrap"));
  CHECK(run("compare one ./one").err == "./one: named twice\n");
}

TEST_CASE_FIXTURE(Session, "a file of another kind is named, with the verb that takes it") {
  write_sweep(*this, "[single]");
  runs("run s.yaml --out one --quiet");
  const std::string placed = "simulate toy.json --placement split.json " + two_gpus;
  runs(placed + " --timeline t.json");
  write("answer.json", json(placed).dump());
  write("rules.yaml", "- scale: {time: 0.5}\n");
  write("model.gguf", "GGUF\x03");
  REQUIRE(shell(folder(), "gzip -k s.yaml rules.yaml") == 0);
  const std::string kinds[][2] = {
      {"toy.json", "a graph, which importer baechi reads: 'baechi place', 'simulate' and"},
      {"split.json", "a placement: 'baechi simulate GRAPH --placement FILE' takes it"},
      {"t.json", "a timeline of a step that this program simulated: give the graph"},
      {"answer.json", "an answer of this program: no verb reads it"},
      {"s.yaml", "a scenario: 'baechi run' runs it"},
      {"s.yaml.gz", "a scenario: 'baechi run' runs it"},
      {"rules.yaml", "rules: 'baechi what-if GRAPH FILE' takes them"},
      {"model.gguf", "weights in GGUF: 'baechi fit', 'place' and 'plan' take them"},
      {"one/report.html", "a report of 'baechi run'"},
      {"one/results.csv", "results of 'baechi run': 'baechi compare FOLDER'"},
      {"one/results.sqlite", "results of 'baechi run': 'baechi compare FOLDER'"}};
  const std::string verbs[][3] = {
      {"run", "--out two", "a scenario"},
      {"place", two_gpus, "a graph"},
      {"what-if toy.json", two_gpus, "rules"},
      {"simulate toy.json --placement", two_gpus, "a placement"},
      {"compare", "", "a folder of results"},
      {"paper", "", "the name of a paper"},
      {"query", "", "questions"},
      {"plan", "--devices 2 --as a100 --batch 8", "a generator of a model"}};
  for (const auto& [path, kind] : kinds)
    for (const auto& [verb, rest, wanted] : verbs) {
      const bool taken = path == "model.gguf" && (verb == "place" || verb == "plan");
      if (taken || kind.starts_with(wanted)) continue;
      refuses(verb + " " + path + " " + rest, path + ": not " + wanted + ", but " + kind);
    }
  runs("what-if toy.json rules.yaml.gz " + two_gpus);
  refuses("place one " + two_gpus, "one: is a folder of results, not a file");
  refuses("simulate toy.json --placement one " + two_gpus,
          "one: is a folder of results, not a file: 'baechi compare'");
}

TEST_CASE_FIXTURE(Session, "arena: a placer's score and rank; better best values are saved") {
  write_arena(*this);
  const auto arena = [&](const std::string& rest) {
    const auto result = run("arena --instances mine --format json --placer " + rest);
    REQUIRE(result.code == 0);
    return Json::parse(result.out);
  };
  const Json first = arena("round_robin --update-best");
  CHECK(has_keys(first, {"score", "instances", "solved", "failures", "placing_s", "rank"}));
  CHECK(first["instances"] == 2);
  CHECK(first["score"] == 1.0);
  const Json other = arena("single");
  CHECK(other["score"].get<double>() > 1.0);  // all ops on one device
  CHECK(other["rank"].get<int>() == 2);
  CHECK(other["ranking"].size() == 2);
  CHECK(arena("round_robin")["ranking"].size() == 1);            // single is not saved
  const Json known = json("arena --instances mine --out page");  // no competing placer
  CHECK(known["instances"] == 2);
  CHECK(known["ranking"].size() == 1);
  arena("single --out mine");
  CHECK(holds(read("page/report.html"), "Placers: 1. Instances: 2."));
  CHECK(holds(read("mine/report.html"),
              "a.v1, bandwidth 1 MB/s</th><td>1.000</td><td>"));  // round_robin, then single
  CHECK(run("arena --instances nowhere --placer single").code == 2);
}

TEST_CASE_FIXTURE(Session, "duel writes the instance that it finds as a scenario") {
  const Json found = json("arena duel single m_etf --evaluations 60 --seed 2 -o fought");
  CHECK(found["ratio"] > 1.0);
  runs("run fought/duel.yaml --out again");
}

TEST_CASE_FIXTURE(Session, "the arena's best known values belong to its current instances") {
  const Json arena = json("arena --placer single");
  CHECK(arena["instances"] == 286);
  CHECK(arena["solved"].get<int>() + arena["failures"].get<int>() == 286);
}
