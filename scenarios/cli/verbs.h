/// The verbs of the program, one file each. Adding a verb to `app` says what it takes; if it is the
/// one on the command line, `chosen` becomes what does the work and returns the exit code: 0 done,
/// 1 internal failure, 3 a difference was found, 130 interrupted. InputError is for main to print
/// (exit 2).
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace baechi {

using Verb = std::function<int()>;

void add_run(CLI::App& app, Verb& chosen);
void add_place(CLI::App& app, Verb& chosen);
void add_simulate(CLI::App& app, Verb& chosen);
void add_bound(CLI::App& app, Verb& chosen);
void add_trace(CLI::App& app, Verb& chosen);
void add_list(CLI::App& app, Verb& chosen);
void add_paper(CLI::App& app, Verb& chosen);
void add_report(CLI::App& app, Verb& chosen);
void add_schema(CLI::App& app, Verb& chosen);
void add_validate(CLI::App& app, Verb& chosen);

}  // namespace baechi
