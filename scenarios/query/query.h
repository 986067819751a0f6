/// Questions of programs that ask many: how long kernels, collectives and steps take.
#pragma once
#include <nlohmann/json.hpp>

#include "sim/options.h"

namespace baechi::query {

/// Answers questions, each a JSON object on one line (cli/json.md has their keys), with JSON
/// objects on one line: {"error": TEXT} where a question cannot be answered. `sink` gets the
/// answers in the order of the questions, each as soon as it and those before it are known. Equal
/// questions are answered once. Uses all cores; the answers do not depend on their number.
void answer_all(std::span<const std::string> questions,
                const std::function<void(const std::string&)>& sink);

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
