/// libFuzzer target: bytes as rules of what-ifs. Accepted rules rewrite a small step, or throw
/// InputError.

#include "tests/fuzz/written.h"
#include "tests/sim/transform/what_if_steps.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  return testing::accepts_or_refuses(data, size, [](const std::string& text) {
    if (text.find("simulate") != std::string::npos) return;  // a million replicas take too long
    Options::Value entry{.text = {}, .where = "fuzz", .children = {}};
    entry.children.emplace_back("what_if", parse_yaml(text, "fuzz"));
    const Options::Value included = with_included_rules(entry, "/nowhere");
    const auto& options = included.children.front().second.children;
    Options rules("what_if", {options.begin(), options.end()});
    const WhatIfRules what_if(rules);
    rules.finish();
    const OpGraph graph = testing::six_ops();
    const Transformed made = what_if.apply(graph);
    BAECHI_CHECK(made.mapped_op.size() == graph.num_ops(), "{}", made.mapped_op.size());
    const PlacedStep step =
        what_if.after_placing(made.graph, IdVector<OpId, DeviceId>(made.graph.num_ops()));
    BAECHI_CHECK(step.device.size() == step.graph.num_ops(), "{}", step.device.size());
  });
}
