/// The verbs of the program; one file implements each verb. add_VERB() adds the verb with its flags
/// to `app`. If the command line names that verb, the parser sets `chosen` to the function that
/// does the work and returns the exit code:
/// - 0 done,
/// - 1 internal failure,
/// - 3 a difference was found,
/// - 130 interrupted.
/// The function may throw InputError, which main() prints (exit code 2).
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace baechi {

using Verb = std::function<int()>;
using AddVerb = void(CLI::App& app, Verb& chosen);

AddVerb add_arena, add_bound, add_codesign, add_compare, add_configure, add_duel, add_explain,
    add_list, add_merge, add_paper, add_place, add_plan, add_query, add_report, add_run, add_schema,
    add_simulate, add_study, add_trace, add_train, add_validate, add_validate_fit,
    add_validate_published, add_validate_replay, add_validate_torch, add_what_if;

}  // namespace baechi
