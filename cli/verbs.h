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

void add_arena(CLI::App& app, Verb& chosen);
void add_bound(CLI::App& app, Verb& chosen);
void add_codesign(CLI::App& study, Verb& chosen);
void add_compare(CLI::App& app, Verb& chosen);
void add_configure(CLI::App& study, Verb& chosen);
void add_duel(CLI::App& arena, Verb& chosen);
void add_explain(CLI::App& app, Verb& chosen);
void add_list(CLI::App& app, Verb& chosen);
void add_merge(CLI::App& app, Verb& chosen);
void add_paper(CLI::App& app, Verb& chosen);
void add_place(CLI::App& app, Verb& chosen);
void add_plan(CLI::App& app, Verb& chosen);
void add_report(CLI::App& app, Verb& chosen);
void add_run(CLI::App& app, Verb& chosen);
void add_schema(CLI::App& app, Verb& chosen);
void add_simulate(CLI::App& app, Verb& chosen);
void add_study(CLI::App& app, Verb& chosen);
void add_trace(CLI::App& app, Verb& chosen);
void add_train(CLI::App& app, Verb& chosen);
void add_validate(CLI::App& app, Verb& chosen);
void add_validate_fit(CLI::App& app, Verb& chosen);
void add_validate_published(CLI::App& app, Verb& chosen);
void add_validate_replay(CLI::App& app, Verb& chosen);
void add_validate_torch(CLI::App& app, Verb& chosen);
void add_what_if(CLI::App& app, Verb& chosen);

}  // namespace baechi
