#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/traces/generate/generated_models.h"
#include "traces/format/compressed_file.h"

namespace {

std::string rules_file() {
  return source_dir() + "/scenarios/papers/baechi_socc20/colocrl_inception_v3.rules";
}

/// By module ("Mixed_5b"): the devices of its layers, sorted.
using Devices = std::map<std::string, std::string>;

void add(Devices& devices, const std::string& layer, char device) {
  std::string& all = devices[layer.substr(0, layer.find('/'))];
  all.insert(std::ranges::upper_bound(all, device), device);
}

}  // namespace

TEST_SUITE_BEGIN("placers");
TEST_CASE("expert follows the first rule that matches, then the default") {
  const OpGraph graph = graph_of("encoder/a0; encoder/b1=0; decoder/a0; loss0");
  Values values;
  values["rules"].children = {{"*/b?", value("2")}, {"encoder/*", value("1")}};
  values["default"] = value("0");
  CHECK(devices(place("expert", graph, gpus(3), values)) == "1 2 0 0");
  values.erase("default");
  CHECK_REFUSED(place("expert", graph, gpus(3), values),
                "expert: no rule matches op 'decoder/a', op 'loss'; add a rule or 'default'");
  values["default"] = value("7", "x.yaml:2:3");
  CHECK_REFUSED(place("expert", graph, gpus(2), values),
                "expert.rules: '*/b?' -> 2, but there are 2 devices (0 to 1)\n"
                "expert.default: 7, but there are 2 devices (0 to 1)");
}

TEST_CASE("expert places a group by its first member with a rule, and reports disagreement") {
  const OpGraph graph = graph_of("free0,c:x; first0,c:x; second0,c:x");
  Values values;
  values["rules"].children = {{"first", value("1")}, {"second", value("0")}};
  const Placement p = place("expert", graph, gpus(2), values);
  CHECK(devices(p) == "1 1 1");
  CHECK(p.detail == "1 group with rules that differ: the first member decided");
}

TEST_CASE("expert requires a file, rules or a default, and devices in its rules") {
  CHECK_REFUSED(placer("expert"),
                "expert.file: missing: give 'file', 'rules', 'rule_file' or 'default'");
  Values values;
  values["rules"].children = {{"a*", value("gpu0")}};
  CHECK_REFUSED(placer("expert", values),
                "expert.rules: 'a*' -> 'gpu0' is not a device: 0, 1, ...");
}

TEST_CASE("expert reads rules from a file, after those of the option, and reports every bad line") {
  const TemporaryFolder folder;
  const std::string good =
      folder.write("good.rules", "# two towers\n\nleft/* 1   # and its gradients\n *\t0\r\n");
  const OpGraph graph = graph_of("left/a0; right/a0; left/b0");
  Values values{{"rule_file", value(good)}};
  CHECK(devices(place("expert", graph, gpus(2), values)) == "1 0 1");
  values["rules"].children = {{"*/b", value("0")}};
  CHECK(devices(place("expert", graph, gpus(2), values)) == "1 0 0");
  const std::string bad = folder.write("bad.rules", "a\nb 0\nc gpu1\nd 0 1\n");
  values["rule_file"] = value(bad);
  CHECK(message<InputError>([&] { placer("expert", values); }) ==
        bad + ":1:1: 'a' is not a pattern and a device, such as 'encoder/* 0'\n" + bad +
            ":3:1: 'c gpu1' is not a pattern and a device, such as 'encoder/* 0'\n" + bad +
            ":4:1: 'd 0 1' is not a pattern and a device, such as 'encoder/* 0'");
}

/// The figure's second branch of Mixed_6a has no strided 3x3: ours goes with the 3x3 before it.
TEST_CASE("ColocRL's rules say of each module of Inception-V3 what its figure says") {
  Devices published, ours;
  std::map<std::string, int> layers;
  const std::string csv =
      read_file((published_data() / "papers/colocrl_inception_v3_4gpu.csv").string());
  for (const std::string& line : lines_of(csv.substr(csv.find('\n') + 1))) {
    const std::string device = line.substr(line.rfind(',') + 1);
    ++layers[device];
    if (line.starts_with("Mixed_")) add(published, line, device.back());
  }
  CHECK(layers == std::map<std::string, int>{
                      {"cpu", 1}, {"gpu0", 50}, {"gpu1", 7}, {"gpu2", 35}, {"gpu3", 33}});
  for (const std::string& line : lines_of(read_file(rules_file())))
    if (line.starts_with("*Mixed_")) add(ours, line.substr(1), line.back());
  add(published, "Mixed_6a", '3');
  CHECK(published.size() == 11);
  CHECK(published == ours);
}

TEST_CASE("ColocRL's rules place Inception-V3 on four devices") {
  const OpGraph graph = timed(generate("inception_v3", {}));
  const Placement p = place("expert", graph, gpus(4, 12_GiB), {{"rule_file", value(rules_file())}});
  std::array<int, 4> ops{};
  for (const OpId v : graph.ops()) ++ops[index(p.device[v])];
  for (const int count : ops) CHECK(count > 10);
  CHECK(ops[0] > ops[2]);
  CHECK(ops[1] < ops[2]);
}
