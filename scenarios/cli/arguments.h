/// Arguments that several verbs share: a graph file, a component with options, --format.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.h"
#include "sim/names.h"
#include "traces/trace.h"

namespace baechi {

/// Parses "NAME" or "NAME:key=value,key=value", the value of --placer and --importer. In
/// "exec:PATH,key=value" the name is "exec:PATH". Messages name `flag` as the place of a mistake.
/// Throws InputError if a part is not key=value or a key is given twice.
Choice parse_choice(std::string_view text, const std::string& flag);

/// Parses "key=value" texts as the options of the component `owner`. Throws InputError for the same
/// mistakes as parse_choice().
Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag);

/// Splits `text` at every comma outside brackets.
std::vector<std::string> split_at_commas(std::string_view text);

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

/// A CLI11 check that a flag's value is one of the words of the enum E.
template <NamedEnum E>
CLI::IsMember one_of() {
  constexpr auto known = all_words<E>();
  return CLI::IsMember(std::vector<std::string>(known.begin(), known.end()));
}

}  // namespace baechi
