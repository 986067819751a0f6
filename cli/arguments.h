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

/// Adds an argument that must be given: a file, a folder, a name, or several.
template <class Value>
CLI::Option* add_argument(CLI::App& verb, const std::string& name, Value& value,
                          const std::string& help) {
  return verb.add_option(name, value, help)->required()->type_name("");
}
/// Adds a flag whose value is a number from `least` to `most`.
template <class Value, class Limit>
CLI::Option* add_number(CLI::App& verb, const std::string& name, Value& value, Limit least,
                        Limit most, const std::string& help, const std::string& type = "N") {
  return verb.add_option(name, value, help)->type_name(type)->check(CLI::Range(least, most));
}
/// Adds a flag that may be given several times, with a value each.
template <class Value>
CLI::Option* add_repeated(CLI::App& verb, const std::string& name, std::vector<Value>& values,
                          const std::string& type, const std::string& help) {
  return verb.add_option(name, values, help)->type_name(type)->take_all()->allow_extra_args(false);
}

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
