#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "placers/interface/registry.h"
#include "tests/placers/learned/kept_problem.h"
#include "tests/shared_data.h"
#include "tests/traces/generate/generated_models.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

std::string rules_file() {
  return source_dir() + "/scenarios/learned/colocrl_inception_v3.rules";
}

/// By module ("Mixed_5b"): the devices of its layers, sorted.
using Devices = std::map<std::string, std::string>;

void add(Devices& devices, const std::string& layer, char device) {
  std::string& all = devices[layer.substr(0, layer.find('/'))];
  all.insert(std::ranges::upper_bound(all, device), device);
}

}  // namespace

TEST_SUITE("placers/learned") {
  /// The figure's second branch of Mixed_6a has no strided 3x3: ours goes with the 3x3 before it.
  TEST_CASE("ColocRL's rules say of each module of Inception-V3 what its figure says") {
    const std::filesystem::path data = testing::published_data();
    Devices published, ours;
    std::map<std::string, int> layers;
    std::ifstream csv(data / "papers" / "colocrl_inception_v3_4gpu.csv");
    std::string line;
    std::getline(csv, line);
    while (std::getline(csv, line)) {
      const std::string device = line.substr(line.rfind(',') + 1);
      ++layers[device];
      if (line.starts_with("Mixed_")) add(published, line, device.back());
    }
    CHECK(layers == std::map<std::string, int>{
                        {"cpu", 1}, {"gpu0", 50}, {"gpu1", 7}, {"gpu2", 35}, {"gpu3", 33}});
    std::ifstream rules(rules_file());
    while (std::getline(rules, line))
      if (line.starts_with("*Mixed_")) add(ours, line.substr(1), line.back());
    add(published, "Mixed_6a", '3');
    CHECK(published.size() == 11);
    CHECK(published == ours);
  }

  TEST_CASE("ColocRL's rules place Inception-V3 on four devices") {
    const Kept k(timed(generate("inception_v3", {})), 4, 12_GiB);
    const Placement p =
        make_placer(
            "expert",
            Options("expert", {{"rule_file", {.text = rules_file(), .where = {}, .children = {}}}}))
            ->place(k.problem(), 0);
    std::array<int, 4> ops{};
    for (const OpId v : k.graph.ops()) ++ops[index(p.device[v])];
    for (const int count : ops) CHECK(count > 10);
    CHECK(ops[0] > ops[2]);
    CHECK(ops[1] < ops[2]);
  }
}
