/// The roles of a training step's ops: passes, and ops that run concurrently with their pass.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi::pipeline {

bool is_forward(const OpGraph& graph, OpId v);
bool is_backward(const OpGraph& graph, OpId v);

/// Whether `v` is a host op that launches ops of its device ahead of them.
bool launches(const OpGraph& graph, OpId v);
/// Whether `v` serves other ops of its device and runs concurrently with them: it launches them, or
/// it is an all_gather, outside the update and without data inputs, of weights that they read.
bool serves(const OpGraph& graph, OpId v);
/// Whether `v` starts a transfer when its receiver requests it (lane `asked_lane`).
bool is_asked(const OpGraph& graph, OpId v);
/// Whether `v` is a collective that reduces gradients.
bool reduces_gradients(const OpGraph& graph, OpId v);

}  // namespace baechi::pipeline
