/// Arguments that several verbs share: a graph file, a component with options, --format.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/choice_text.h"
#include "sim/names.h"
#include "traces/trace.h"

namespace baechi {

/// The TRACE argument, a graph file, and --importer.
struct TraceArgument {
  std::string path;
  std::string importer;  ///< a text for parse_choice(); "": the file's content chooses
};
void add_trace_argument(CLI::App& verb, TraceArgument& argument);
/// Reads the graph. A graph without a name gets the file's name without folder and last ending.
/// Shows progress on standard error.
Trace read_trace(const TraceArgument& argument);

/// Adds --format to `verb`: one of `formats`; the first is the default.
void add_format(CLI::App& verb, std::string& format, std::vector<std::string> formats);

/// A CLI11 check that a flag's value is a whole number from 0 to 2^63 - 1. CLI11 itself takes -1
/// for 2^64 - 1.
CLI::Validator is_seed();

/// A CLI11 check that a flag's value is one of the words of the enum E.
template <NamedEnum E>
CLI::IsMember one_of() {
  constexpr auto known = all_words<E>();
  return CLI::IsMember(std::vector<std::string>(known.begin(), known.end()));
}

}  // namespace baechi
