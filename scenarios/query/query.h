/// Questions of programs that ask many: how long kernels, collectives and steps take.
#pragma once
#include <functional>
#include <span>
#include <string>

namespace baechi::query {

/// Answers questions, each a JSON object on one line (cli/json.md has their keys), with JSON
/// objects on one line: {"error": TEXT} where a question cannot be answered. `sink` gets the
/// answers in the order of the questions, each as soon as it and those before it are known. Equal
/// questions are answered once. Uses all cores; the answers do not depend on their number.
void answer_all(std::span<const std::string> questions,
                const std::function<void(const std::string&)>& sink);

}  // namespace baechi::query
