#pragma once
#include <nlohmann/json.hpp>

#include "tests/prelude.h"

namespace baechi::testing {

using Json = nlohmann::json;

//   a(10 us) --1000 B--> b(20 us)
//          \----------> c(30 us)     one tensor, two readers
inline constexpr std::string_view toy = R"({"format": "baechi-trace", "version": 1, "name": "toy",
 "ops": [{"name": "a", "compute_us": 10, "outputs": [{"bytes": 1000}]},
         {"name": "b", "compute_us": 20},
         {"name": "c", "compute_us": 30}],
 "edges": [{"from": "a", "output": 0, "to": "b"}, {"from": "a", "output": 0, "to": "c"}]})";
inline constexpr std::string_view split =
    R"({"format": "baechi-placement", "version": 1, "graph": "toy",
 "devices": 2, "placement": {"a": 0, "b": 1, "c": 1}})";
inline const std::string two_gpus = "--devices 2 --memory '1 MB' --bandwidth '1 GB/s' --latency 0";

/// The program, run in a folder that holds toy.json and split.json.
class Session {
 public:
  struct Result {
    int code = -1;  ///< exit code; 128 + n of signal n
    std::string out, err;
  };

  Session() {
    folder_.write("toy.json", toy);
    folder_.write("split.json", split);
  }

  /// Runs the program with `arguments` in shell syntax. `around`: a command with "{}" for the
  /// command line.
  Result run(const std::string& arguments, const std::string& around = "{}") const {
    std::string command = around;
    command.replace(command.find("{}"), 2, program() + " " + arguments);
    const int code = shell(folder_, command, ">out.txt 2>err.txt </dev/null");
    return {code, folder_.read("out.txt"), folder_.read("err.txt")};
  }

  /// Requires exit code 0.
  void runs(const std::string& arguments) const {
    const Result result = run(arguments);
    INFO(arguments, " ", result.err);
    REQUIRE(result.code == 0);
  }

  /// Checks that the program calls it a mistake, whose message has `said`.
  void refuses(const std::string& arguments, std::string_view said) const {
    const Result result = run(arguments);
    CAPTURE(arguments);
    CHECK(result.code == 2);
    CHECK_MESSAGE(result.err.find(said) != std::string::npos, result.err);
  }

  /// The JSON output. Requires exit code 0.
  Json json(const std::string& arguments) const {
    const Result result = run(arguments + " --format json");
    INFO(arguments, " ", result.err);
    REQUIRE(result.code == 0);
    return Json::parse(result.out);
  }

  const TemporaryFolder& folder() const { return folder_; }
  std::string file(std::string_view name) const { return folder_.file(name); }
  std::string write(std::string_view name, std::string_view text) const {
    return folder_.write(name, text);
  }
  std::string read(std::string_view name) const { return folder_.read(name); }
  bool exists(std::string_view name) const { return std::filesystem::exists(file(name)); }
  void graph(std::string_view name, std::string_view text) const { write_graph(file(name), text); }

 private:
  TemporaryFolder folder_;
};

/// Writes mine/instances/a.yaml, two instances of an arena.
inline void write_arena(const Session& session) {
  std::filesystem::create_directories(session.file("mine/instances"));
  session.write("mine/instances/a.yaml", R"(
name: a.v1
graph: {generate: layered, ops: 40}
cluster: {devices: {count: 2, memory: 1 GiB}}
placers: [single]
sweep: {cluster.link.bandwidth: [1 MB/s, 100 GB/s]}
)");
}

inline std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

/// The parts of `value` that `wanted` has, by key and index. Throws where one is missing.
inline Json parts_of(const Json& value, const Json& wanted) {
  if (!wanted.is_structured()) return value;
  Json parts = wanted;
  for (const auto& [key, part] : wanted.items())
    if (wanted.is_object())
      parts[key] = parts_of(value.at(key), part);
    else
      parts[std::stoul(key)] = parts_of(value.at(std::stoul(key)), part);
  return parts;
}
#define CHECK_PARTS(value, text) CHECK(parts_of(value, Json::parse(text)) == Json::parse(text))

inline bool has_keys(const Json& object, const std::vector<std::string>& wanted) {
  return std::ranges::all_of(wanted, [&](const std::string& key) { return object.contains(key); });
}

}  // namespace baechi::testing
