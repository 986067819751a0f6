#include "tests/cli/session.h"

namespace {

/// s.yaml: three graphs on two devices whose link has this speed in GB/s.
void write_sweep(const Session& session, const std::string& placers,
                 const std::string& speed = "1") {
  session.folder().write(
      "s.yaml",
      "name: s\ngraph: {generate: layered, ops: 40}\nsweep: {graph.seed: [1, 2, 3]}\n"
      "cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: " +
          speed + " GB/s}}\nplacers: " + placers + "\n");
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("compare: a placer against itself and others, from folders of results") {
    const Session session;
    write_sweep(session, "[single, {name: twin, single: {}}, m_etf]");
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

  TEST_CASE("compare: scenarios of the same name with different links have no common point") {
    const Session session;
    for (const std::string speed : {"1", "100"}) {
      write_sweep(session, speed == "1" ? "[single]" : "[m_etf]", speed);
      REQUIRE(session.run("run s.yaml --out at" + speed + " --quiet").code == 0);
    }
    CHECK(session.json("compare at1 at100")["pairs"][0]["ties"] == 0);
    CHECK(holds(session.run("compare at1 at100").err, "nothing to compare"));
    CHECK_FALSE(holds(session.run("compare at1 at1").err, "nothing to compare"));
  }

  TEST_CASE("compare says what few graphs can show, as LaTeX too, and takes each folder once") {
    const Session session;
    write_sweep(session, "[single, round_robin, m_etf]");
    REQUIRE(session.run("run s.yaml --out one --quiet").code == 0);
    CHECK(session.json("compare one")["least_p"] == 0.25);  // 2 / 2^3
    CHECK(holds(session.run("compare one").out,
                "3 graphs can show no p below 0.250, nor 3 pairs of placers one below 0.750"));
    const std::string latex = session.run("compare one --format latex").out;
    CHECK(latex.starts_with("\\begin{tabular}{lrrrrrrrrrr}\n\\hline\nplacer & ok & "));
    CHECK(holds(latex, "round\\_robin & "));
    CHECK(holds(latex, "95 \\% bootstrap"));
    CHECK(session.run("compare one ./one").err == "./one: named twice\n");
  }

  TEST_CASE("a file of another kind is named, with the verb that takes it; nothing is parsed") {
    const Session session;
    write_sweep(session, "[single]");
    REQUIRE(session.run("run s.yaml --out one --quiet").code == 0);
    const std::string placed = "simulate toy.json --placement split.json " + two_gpus;
    REQUIRE(session.run(placed + " --timeline t.json").code == 0);
    session.folder().write("answer.json", session.json(placed).dump());
    session.folder().write("rules.yaml", "- scale: {time: 0.5}\n");
    session.folder().write("model.gguf", "GGUF\x03");
    REQUIRE(shell(session.folder(), "gzip -k s.yaml rules.yaml") == 0);
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
    for (const auto& [file, kind] : kinds)
      for (const auto& [verb, rest, wanted] : verbs) {
        const bool taken = file == "model.gguf" && (verb == "place" || verb == "plan");
        if (taken || kind.starts_with(wanted)) continue;
        const auto answer = session.run(verb + " " + file + " " + rest);
        CAPTURE(answer.err);
        CHECK(answer.code == 2);
        CHECK(holds(answer.err, file + ": not " + wanted + ", but " + kind));
      }
    CHECK(session.run("what-if toy.json rules.yaml.gz " + two_gpus).code == 0);
    session.refuses("place one " + two_gpus, "one: is a folder of results, not a file");
    session.refuses("simulate toy.json --placement one " + two_gpus,
                    "one: is a folder of results, not a file: 'baechi compare'");
  }

  TEST_CASE("arena: a placer's score and rank; better best values are saved") {
    const Session session;
    write_arena(session);
    const auto arena = [&](const std::string& rest) {
      const auto result = session.run("arena --instances mine --format json --placer " + rest);
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
    CHECK(arena("round_robin")["ranking"].size() == 1);                    // single is not saved
    const Json known = session.json("arena --instances mine --out page");  // no competing placer
    CHECK(known["instances"] == 2);
    CHECK(known["ranking"].size() == 1);
    arena("single --out mine");
    CHECK(holds(session.folder().read("page/report.html"), "Placers: 1. Instances: 2."));
    CHECK(holds(session.folder().read("mine/report.html"),
                "a.v1, bandwidth 1 MB/s</th><td>1.000</td><td>"));  // round_robin, then single
    CHECK(session.run("arena --instances nowhere --placer single").code == 2);
  }

  TEST_CASE("duel writes the instance that it finds as a scenario with both steps") {
    const Session session;
    const Json found = session.json("arena duel single m_etf --evaluations 60 --seed 2 -o fought");
    CHECK(found["ratio"] > 1.0);
    CHECK(session.run("run fought/duel.yaml --out again").code == 0);
  }

  TEST_CASE("the arena's best known values belong to its current instances") {
    const Session session;
    const Json arena = session.json("arena --placer single");
    CHECK(arena["instances"] == 286);
    CHECK(arena["solved"].get<int>() + arena["failures"].get<int>() == 286);
  }
}
