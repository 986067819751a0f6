#include "tests/prelude.h"
#include "tests/sim/transform/what_if_steps.h"

namespace {

Duration what_if_step(const std::string& yaml, EngineOptions engine = {}) {
  return run(rewritten({six_ops()}, rules(yaml)), engine).makespan;
}

std::string mistake(const std::string& yaml) {
  return message<InputError>([&] { rewritten({six_ops()}, rules(yaml)); });
}

/// The names of the ops that `where` selects, in a rule that removes all others' time.
std::string selected(const std::string& where) {
  const OpGraph graph =
      rewritten({six_ops()}, rules("[{set: {lane: chosen}, where: " + where + ", optional: true}]"))
          .graph;
  std::string names;
  for (const OpId v : graph.ops())
    if (graph.lanes()[index(graph.lane(v))] == "chosen")
      names += (names.empty() ? "" : " ") + std::string(graph.name(v));
  return names;
}

}  // namespace

TEST_SUITE_BEGIN("what_if");
TEST_CASE("six ops, unchanged") {
  const StepResult result = run(rewritten({six_ops()}, rules("[]")));
  CHECK(result.makespan == 130ns);
  CHECK(result.devices[gpu0].peak == 360_B);
}

TEST_CASE("each condition selects the right ops") {
  CHECK(selected("{name: \"*_grad\"}") == "relu_grad conv_grad");
  CHECK(selected("{kind: relu}") == "relu relu_grad");
  CHECK(selected("{kind: [\"relu\", sgd], phase: [forward, update]}") == "relu update");
  CHECK(selected("{phase: update}") == "update");
  CHECK(selected("{lane: \"comp*\", time: \">14 ns\"}") == "conv conv_grad");
  CHECK(selected("{time: \"<= 10 ns\"}") == "relu loss relu_grad");
  CHECK(selected("{bytes: \"=100 B\"}") == "conv_grad");
  CHECK(selected("{weights: \">0\"}") == "conv");
  CHECK(selected("{bound: compute}") == "conv conv_grad");  // by the kind: no work is known
  CHECK(selected("{bound: host}") == "");
  CHECK(selected("{work: known}") == "");
  CHECK(selected("{reads: {kind: loss}}") == "relu_grad");
  CHECK(selected("{read_by: {name: conv_grad}}") == "conv relu_grad");
  CHECK(selected("{not: {phase: forward}}") == "relu_grad conv_grad update");
  CHECK(selected("{any: [{name: conv}, {name: loss}], phase: forward}") == "conv loss");
}

TEST_CASE("a condition on times gets a graph with times, however deep it is") {
  for (const std::string where :
       {"{time: \">20 ns\"}", "{reads: {time: \">20 ns\"}}", "{not: {time: \">20 ns\"}}",
        "{any: [{kind: relu}, {time: \">20 ns\"}]}", "{not: {kind: relu}}"}) {
    CAPTURE(where);
    bool asked = false;
    const auto timed = [&](const OpGraph&) { return asked = true, six_ops(); };
    rules("[{set: {lane: chosen}, where: " + where + "}]").on({.timed = timed})->apply(six_ops());
    CHECK(asked == (holds(where, "time")));
  }
}

TEST_CASE("scale, set and limit") {
  CHECK(what_if_step("[{scale: {time: 0.5}, where: {phase: backward}}]") == 95ns);  // 5 + 30 less
  CHECK(what_if_step("[{set: {time: 1 us}, where: {name: loss}}]") == 1124ns);
  // t0 and t3 of 20 B each, t1 stays: 320 B.
  const WhatIfRules half = rules("[{scale: {bytes: 0.5, to: {name: conv_grad}}}]");
  CHECK(run(rewritten({six_ops()}, half)).devices[gpu0].peak == 320_B);
  const WhatIfRules less = rules("[{limit: {workspace: 0.5x}, where: {name: relu_grad}}]");
  CHECK(run(rewritten({six_ops()}, less)).devices[gpu0].peak == 280_B);  // now conv_grad's
  // 30 + 10 + 6 + 10 + 60 twice, and the update; t0 to t3 of 80 B each, a workspace of 200 B.
  CHECK(what_if_step("[{batch: {factor: 2}}]") == 246ns);
  CHECK(run(rewritten({six_ops()}, rules("[{batch: {factor: 2}}]"))).devices[gpu0].peak == 620_B);
  // In a lane of its own the update does not wait for the device; here it waits for conv_grad.
  CHECK(what_if_step("[{set: {lane: copy}, where: {phase: update}}]") == 130ns);
}

TEST_CASE("remove: readers read the op's input, and wait for its predecessors") {
  const PlacedStep step = rewritten({six_ops()}, rules("[{remove: , where: {kind: relu}}]"));
  CHECK(run(step).makespan == 110ns);
  const OpId loss = *step.graph.find("loss"), conv_grad = *step.graph.find("conv_grad");
  const auto reads = [&](OpId v) {
    std::string names;
    for (const EdgeId e : step.graph.in_edges(v))
      names += std::string(step.graph.name(step.graph.edge(e).src)) +
               (step.graph.tensor(step.graph.edge(e).tensor).control ? "! " : " ");
    return names;
  };
  CHECK(reads(loss) == "conv ");
  // It read t0 and t3; t3 is as large as t1, the first input of relu_grad, which is t0. It waits
  // for the loss, which relu_grad waited for.
  CHECK(reads(conv_grad) == "conv loss! ");
}

TEST_CASE("merge: sum, maximum, and one kernel without internal traffic") {
  CHECK(rewritten({six_ops()}, rules("[{merge: , where: {name: [relu, loss]}}]")).graph.num_ops() ==
        5);
  CHECK(what_if_step("[{merge: {time: max}, where: {name: [relu, loss]}}]") == 124ns);
  // relu and loss read and write 4 x 40 B. t1 has another reader: only the reading by loss is
  // saved, a quarter of 16 ns.
  CHECK(what_if_step("[{merge: {by: chain, time: work}, where: {name: [relu, loss]}}]") == 126ns);
  CHECK(holds(mistake("[{merge: , where: {name: [conv, conv_grad]}}]"), "cycle"));
}

TEST_CASE("insert: after and before each op, or one for all") {
  CHECK(what_if_step("[{insert: {after: each, op: {time: 5 ns}, read_by: {phase: backward}}, "
                     "where: {phase: backward}}]") ==
        140ns);  // behind conv_grad by its id, before the update
  CHECK(what_if_step("[{insert: {before: each, op: {time: 5 ns}}, where: {phase: backward}}]") ==
        140ns);
  CHECK(what_if_step("[{insert: {before: first, op: {time: 5 ns}}}]") == 135ns);
  const PlacedStep step =
      rewritten({six_ops()}, rules("[{insert: {after: last, op: {name: sum, time: 5 ns, lane: "
                                   "copy}}, where: {name: [conv, relu]}}]"));
  CHECK(step.graph.in_edges(*step.graph.find("relu/sum")).size() == 2);
  CHECK(run(step).makespan == 130ns);
}

TEST_CASE("split: parts add up, and parts of neighbours follow each other") {
  const PlacedStep step =
      rewritten({six_ops()}, rules("[{split: {parts: 3}, where: {name: [conv_grad, update]}}]"));
  CHECK(step.graph.num_ops() == 10);
  CHECK(run(step).makespan == 130ns);
  CHECK(step.graph.in_edges(*step.graph.find("update/part2")).size() == 1);
  const OpId second = *step.graph.find("conv_grad/part1");
  CHECK(step.graph.op(second).compute == 20ns);
  CHECK(step.graph.tensor(*step.graph.outputs(second).begin()).size == 33_B);  // 34 + 33 + 33
}

TEST_CASE("drop_edges and add_edge") {
  // Nothing waits for relu_grad: conv_grad still waits for its turn.
  CHECK(what_if_step("[{drop_edges: , where: {name: relu_grad}}]") == 130ns);
  CHECK(
      rewritten({six_ops()}, rules("[{drop_edges: {to: {phase: backward}}}]")).graph.num_edges() ==
      3);
  CHECK(what_if_step("[{set: {lane: copy}, where: {name: update}}, {drop_edges: , where: {name: "
                     "conv_grad}}]") == 116ns);
  CHECK(what_if_step("[{set: {lane: copy}, where: {name: update}}, {drop_edges: , where: {name: "
                     "conv_grad}}, {add_edge: {to: {name: update}}, where: {name: conv_grad}}]") ==
        130ns);
  CHECK(holds(mistake("[{add_edge: {to: {name: conv}}, where: {name: loss}}]"), "cycle"));
}

TEST_CASE("collective: outputs go over the ring, and their readers wait") {
  // 100 B over 2 ranks: 2 x 50 ns, after conv_grad and before the update.
  CHECK(what_if_step("[{collective: {ranks: 2, to: {phase: update}}, where: {phase: backward}}]") ==
        230ns);
  // In stages of 2 x 2 ranks on one node, too; relu_grad still reads t1 and t2.
  const PlacedStep four =
      rewritten({six_ops()},
                rules("[{collective: {ranks: 4, to: {phase: update}}, where: {phase: backward}}, "
                      "{collective: {factors: [2, 2]}, where: {kind: all_reduce}}]"));
  CHECK(four.graph.collectives().size() == 3);
  for (const Collective& stage : four.graph.collectives()) {
    CHECK(stage.ranks == 2);
    CHECK(stage.nodes == 1);
  }
  CHECK(four.graph.in_edges(*four.graph.find("relu_grad")).size() == 2);
}

TEST_CASE("rules after placing keep to a device; a transform may be a rule") {
  WhatIfCase two{six_ops()};
  two.device = on({gpu0, gpu0, gpu1, gpu1, gpu1, gpu1}).device;
  const WhatIfRules merged = rules("[{merge: , where: {name: [relu, loss]}, after_placing: true}]");
  CHECK(rewritten(two, merged).graph.num_ops() == 6);
  CHECK(what_if_step("[{host: {launch: 100 ns}}]") == 614ns);  // six launches, then the update
  CHECK(what_if_step("[precision]") == 60ns);                  // 10 + 5 + 6 (a loss) + 5 + 20 + 14
}

TEST_CASE("all errors are reported with their place") {
  CHECK(mistake("\n- scale: {time: 2}\n  where: {name: nothing}") ==
        "x.yaml:2:3: what_if: 'scale' selects none of 6 ops ('optional: true' lets it pass)");
  const std::string all = mistake(
      "\n- scal: {time: 2}\n- scale: {tim: 2}\n- scale: {time: 2}\n  where: {bound: gpu, phas: 1}\n"
      "- {scale: {}, set: {}}\n- {where: {}}\n- {coplace: {}}\n");
  for (const char* const part :
       {"x.yaml:2:9: no verb or transform 'scal' (did you mean 'scale'?)",
        "x.yaml:3:16: scale has no option 'tim' (did you mean 'time'?)",
        "x.yaml:5:18: where.bound: 'gpu' is not one of compute, memory, host",
        "where has no condition 'phas' (did you mean 'phase'?)", "a rule has one verb",
        "a rule without a verb", "'coplace' changes only what placers see"})
    CHECK_MESSAGE(holds(all, part), all, "\nlacks ", part);
  // In a step that is one op, nobody knows which bytes are weights.
  CHECK(mistake("\n- merge: {by: all}\n- precision: {to: fp16}\n") ==
        "x.yaml:3:3: what_if: 'precision' must come before 'merge'");
}
