/// What-if rules on small steps: rules as YAML, and what the engine makes of the result.
#pragma once
#include "scenarios/read/what_if_files.h"
#include "scenarios/read/yaml.h"
#include "sim/transform/what_if/what_if.h"
#include "tests/graph_text.h"
#include "tests/small_graphs.h"
#include "tests/this_build.h"

namespace baechi::testing {

/// A step whose ops are all on one device, unless `device` is given.
struct WhatIfCase {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};
};

inline WhatIfRules rules(const std::string& yaml) {
  Options options("what_if", {{"rules", parse_yaml(yaml, "x.yaml")}});
  return WhatIfRules(options);
}

/// An entry of the catalogue, with values for what it asks.
inline WhatIfRules entry(const std::string& name, const std::string& with = "{}") {
  Options options("what_if",
                  {{"rules", read_rule_file(source_dir() + "/scenarios/whatif/" + name + ".yaml",
                                            parse_yaml(with, "with"))
                                 .rules}});
  return WhatIfRules(options);
}

inline PlacedStep rewritten(const WhatIfCase& step, const WhatIfRules& what_if) {
  const Transformed made = what_if.apply(step.graph);
  IdVector<OpId, DeviceId> device(made.graph.num_ops());
  if (!step.device.empty())
    for (const OpId v : step.graph.ops())
      if (made.mapped_op[v] != no_op) device[made.mapped_op[v]] = step.device[v];
  return what_if.after_placing(made.graph, device);
}

/// Two devices, 1 ns per byte between them.
inline StepResult run(const PlacedStep& step, EngineOptions engine = {}) {
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(step.graph, cluster);
  Placement placement;
  placement.device = step.device;
  return simulate({step.graph, cluster, costs, engine}, placement);
}

/// conv 30 -t0-> relu 10 -t1-> loss 6 -t2-> relu_grad 10 -t3-> conv_grad 60 -g-> update 14 ns
/// Tensors have 40 B, g and the weights of conv 100 B, the workspace of relu_grad, too. relu_grad
/// also reads t1, conv_grad t0. The step takes 130 ns. Peak, when relu_grad runs: weights, t0 to
/// t3 and the workspace, 360 B; when conv_grad runs 280 B.
inline OpGraph six_ops(const std::string& layer = "Conv2d", const std::string& next = "ReLU",
                       Bytes optimizer_state = {}) {
  return graph_of(fmt::format(
      "conv30,k:{0},w100 -t40> relu10,k:{1} -u40> loss6,k:Loss; relu -u> "
      "relu_grad10,k:{1}Backward,t100,b:relu; loss -40> relu_grad; conv -t> "
      "conv_grad60,k:{0}Backward,b:conv; relu_grad -40> conv_grad -100> update14,k:SGD,w{2},u",
      layer, next, optimizer_state.count));
}

}  // namespace baechi::testing
