#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "scenarios/read/scenario_schema.h"
#include "scenarios/results/results.h"
#include "sim/names.h"
#include "sim/problem/engine_options.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

namespace {

/// The program's exit code; its output goes to out.txt in `folder`, the working folder.
int run_program(const TemporaryFolder& folder, const std::string& arguments) {
  const std::string command =
      "cd '" + folder.file("") + "' && " + program() + " " + arguments + " >out.txt 2>&1";
  return std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
}

template <NamedEnum E>
std::string yaml_list() {
  std::string list;
  for (const std::string_view word : all_words<E>())
    list += (list.empty() ? "[" : ", ") + std::string(word);
  return list + "]";
}

/// Checks that `help` has each name of an enum, followed by its meaning.
template <NamedEnum E>
void check_help(const std::string& help) {
  for (const E e : all<E>())
    CHECK_MESSAGE(help.find(std::string(to_text(e)) + " (") != std::string::npos, to_text(e));
}

template <NamedEnum E>
void check_schema(const Json& schema, const char* key) {
  const Json& property = schema["properties"]["engine"]["properties"][key];
  constexpr auto known = all_words<E>();
  CHECK(property["enum"].get<std::vector<std::string>>() ==
        std::vector<std::string>(known.begin(), known.end()));
}

constexpr std::string_view toy = R"({"format": "baechi-trace", "version": 1, "name": "toy",
 "ops": [{"name": "a", "compute_us": 10, "outputs": [{"bytes": 1000}]},
         {"name": "b", "compute_us": 20}],
 "edges": [{"from": "a", "output": 0, "to": "b"}]})";

}  // namespace

TEST_SUITE("names") {
  TEST_CASE(
      "an external placer gets the names of all engine options, and results are read back with "
      "them") {
    const TemporaryFolder folder;
    folder.write("toy.json", toy);
    // Stores its input in a new file, and places both ops on the first device.
    folder.write("place",
                 "#!/bin/sh\ncat > \"$(mktemp ./seen.XXXXXX)\"\n"
                 "echo '{\"format\": \"baechi-placement\", \"version\": 1, \"placement\": "
                 "{\"a\": 0, \"b\": 0}}'\n");
    std::filesystem::permissions(folder.file("place"), std::filesystem::perms::owner_all);
    folder.write("words.yaml",
                 "graph: {import: toy.json}\n"
                 "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
                 "placers: [{exec: {path: place}}]\n"
                 "sweep:\n  engine.semantics: " +
                     yaml_list<Semantics>() + "\n  engine.transfers: " + yaml_list<Transfers>() +
                     "\n  engine.queue: " + yaml_list<ReadyOrder>() + "\n");
    const int code = run_program(folder, "run words.yaml --out results --quiet");
    CAPTURE(folder.read("out.txt"));
    REQUIRE(code == 0);

    std::set<std::string> received, expected;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("seen.")) continue;
      const Json engine = Json::parse(folder.read(name))["engine"];
      received.insert(engine["semantics"].get<std::string>() + " " +
                      engine["transfers"].get<std::string>() + " " +
                      engine["queue"].get<std::string>());
    }
    for (const Semantics s : all<Semantics>())
      for (const Transfers t : all<Transfers>())
        for (const ReadyOrder q : all<ReadyOrder>())
          expected.insert(std::string(to_text(s)) + " " + std::string(to_text(t)) + " " +
                          std::string(to_text(q)));
    CHECK(received == expected);

    const Results results = read_results(folder.file("results"));  // from results.sqlite
    const std::string csv = folder.read("results/results.csv");
    std::set<Transfers> seen;
    for (const RunResult& row : results.rows) {
      CHECK(row.status == Status::ok);
      seen.insert(row.transfers);
    }
    CHECK(results.rows.size() == expected.size());
    CHECK(seen.size() == all<Transfers>().size());
    for (const Transfers t : all<Transfers>())
      CHECK(csv.find("," + std::string(to_text(t)) + ",ok,") != std::string::npos);
  }

  TEST_CASE("the flags accept the names of all engine options, and help and schema list them") {
    const TemporaryFolder folder;
    folder.write("toy.json", toy);
    folder.write("both.json",
                 R"({"format": "baechi-placement", "version": 1, "placement": {"a": 0, "b": 1}})");
    for (const Transfers t : all<Transfers>())
      for (const Semantics s : all<Semantics>()) {
        CAPTURE(to_text(t));
        CAPTURE(to_text(s));
        const int code =
            run_program(folder,
                        "simulate toy.json --placement both.json --devices 2 --memory '1 MB' "
                        "--transfers " +
                            std::string(to_text(t)) + " --semantics " + std::string(to_text(s)));
        CAPTURE(folder.read("out.txt"));
        CHECK(code == 0);
      }
    CHECK(run_program(folder, "simulate --help") == 0);
    check_help<Transfers>(folder.read("out.txt"));
    check_help<Semantics>(folder.read("out.txt"));

    const Json schema = Json::parse(scenario_schema());
    check_schema<Semantics>(schema, "semantics");
    check_schema<Transfers>(schema, "transfers");
    check_schema<ReadyOrder>(schema, "queue");
  }
}
