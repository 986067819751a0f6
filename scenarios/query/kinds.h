/// The kinds of questions. Each takes a question's keys and returns its answer; InputError says why
/// there is none.
#pragma once
#include <nlohmann/json.hpp>

#include "sim/options.h"

namespace baechi::query {

using Json = nlohmann::ordered_json;

/// A training step of a plan.
Json answer_training(Options& question);
/// A graph on one device, or on one and its replicas: inference, or a step of training.
Json answer_step(Options& question);
/// Kernels that run alone. `kernels`: a list of [kind of op, flops, bytes, dtype, kind of matrix
/// operation, count, rows, columns, inner]; the last five may be left out.
Json answer_kernels(Options& question, const Json& kernels);
/// Collectives among the first devices of a cluster. `collectives`: a list of [kind, bytes, ranks].
Json answer_collectives(Options& question, const Json& collectives);

}  // namespace baechi::query
