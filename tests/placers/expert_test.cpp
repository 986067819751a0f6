#include <doctest/doctest.h>

#include "tests/message.h"
#include "tests/placers/place_by_name.h"
#include "tests/temporary_folder.h"

using namespace baechi;
using namespace baechi::testing;

TEST_SUITE_BEGIN("placers");

TEST_CASE("expert follows the first rule that matches, then the default") {
  OpGraphBuilder g;
  for (const char* name : {"encoder/a", "encoder/b1", "decoder/a", "loss"})
    g.add_op({.name = name});
  const OpGraph graph = std::move(g).build();
  Values values;
  values["rules"].children = {{"*/b?", value("2")}, {"encoder/*", value("1")}};
  values["default"] = value("0");
  CHECK(devices(place("expert", graph, gpus(3), values)) == "1 2 0 0");
  values.erase("default");
  CHECK(message<InputError>([&] { place("expert", graph, gpus(3), values); }) ==
        "expert: no rule matches op 'decoder/a', op 'loss'; add a rule or 'default'");
  values["default"] = value("7", "x.yaml:2:3");
  CHECK(message<InputError>([&] { place("expert", graph, gpus(2), values); }) ==
        "expert.rules: '*/b?' -> 2, but there are 2 devices (0 to 1)\n"
        "expert.default: 7, but there are 2 devices (0 to 1)");
}

TEST_CASE("expert places a group by its first member with a rule, and reports disagreement") {
  OpGraphBuilder g;
  for (const char* name : {"free", "first", "second"}) {
    const OpId v = g.add_op({.name = name});
    g.colocate(v, "x");
  }
  const OpGraph graph = std::move(g).build();
  Values values;
  values["rules"].children = {{"first", value("1")}, {"second", value("0")}};
  const Placement p = place("expert", graph, gpus(2), values);
  CHECK(devices(p) == "1 1 1");
  CHECK(p.detail == "1 group with rules that differ: the first member decided");
}

TEST_CASE("expert requires a file, rules or a default, and devices in its rules") {
  CHECK(message<InputError>([] { placer("expert"); }) ==
        "expert.file: missing: give 'file', 'rules', 'rule_file' or 'default'");
  Values values;
  values["rules"].children = {{"a*", value("gpu0")}};
  CHECK(message<InputError>([&] { placer("expert", values); }) ==
        "expert.rules: 'a*' -> 'gpu0' is not a device: 0, 1, ...");
}

TEST_CASE("expert reads rules from a file, after those of the option, and reports every bad line") {
  const TemporaryFolder folder;
  const std::string good =
      folder.write("good.rules", "# two towers\n\nleft/* 1   # and its gradients\n *\t0\r\n");
  OpGraphBuilder g;
  for (const char* name : {"left/a", "right/a", "left/b"}) g.add_op({.name = name});
  const OpGraph graph = std::move(g).build();
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

TEST_SUITE_END();
