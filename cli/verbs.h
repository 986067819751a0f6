/// The verbs of the program, one file each. add_VERB() adds the verb with its flags to `app`. If
/// the verb is parsed, `chosen` becomes the function that runs it and returns the exit code (see
/// main.cpp). The function may throw InputError, which main() prints (exit code 2).
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace baechi {

using Verb = std::function<int()>;
using AddVerb = void(CLI::App& app, Verb& chosen);

AddVerb add_arena, add_bound, add_codesign, add_compare, add_configure, add_duel, add_explain,
    add_fit, add_list, add_merge, add_paper, add_place, add_plan, add_query, add_report, add_run,
    add_schema, add_simulate, add_study, add_trace, add_validate, add_validate_fit,
    add_validate_published, add_validate_replay, add_validate_steps, add_validate_torch,
    add_what_if;

}  // namespace baechi
