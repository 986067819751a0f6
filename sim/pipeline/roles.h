/// The roles of a training step's ops: passes, and ops that run beside their pass.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi::pipeline {

bool is_forward(const OpGraph& graph, OpId v);
bool is_backward(const OpGraph& graph, OpId v);

/// Whether `v` is of the host, which launches ops of its device ahead of them.
bool launches(const OpGraph& graph, OpId v);
/// Whether `v` serves ops of its device, and so runs beside them: it launches them, or it is an
/// all_gather of weights that they read, outside the update, which waits for nothing but its turn.
bool serves(const OpGraph& graph, OpId v);
/// Whether `v` begins a transfer that its receiver asks for.
bool is_asked(const OpGraph& graph, OpId v);
/// Whether `v` is a collective that sends gradients.
bool sums_gradients(const OpGraph& graph, OpId v);

}  // namespace baechi::pipeline
