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

/// The argument TRACE, a graph file, and --importer.
struct TraceArgument {
  std::string path;
  std::string importer;  ///< for parse_choice(); "": chosen by the file's content
};
void add_trace_argument(CLI::App& verb, TraceArgument& argument);
/// Reads the graph, with progress on standard error. The default name is the file's without folder
/// and last extension.
Trace read_trace(const TraceArgument& argument);

/// Adds a required positional argument, which may have several values.
template <class Value>
CLI::Option* add_argument(CLI::App& verb, const std::string& name, Value& value,
                          const std::string& help) {
  return verb.add_option(name, value, help)->required()->type_name("");
}
/// Adds a flag with a number from `least` to `most`.
template <class Value, class Limit>
CLI::Option* add_number(CLI::App& verb, const std::string& name, Value& value, Limit least,
                        Limit most, const std::string& help, const std::string& type = "N") {
  return verb.add_option(name, value, help)->type_name(type)->check(CLI::Range(least, most));
}
/// Adds a flag that may be repeated, with one value each.
template <class Value>
CLI::Option* add_repeated(CLI::App& verb, const std::string& name, std::vector<Value>& values,
                          const std::string& type, const std::string& help) {
  return verb.add_option(name, values, help)->type_name(type)->take_all()->allow_extra_args(false);
}

/// Adds --format: one of `formats`, by default the first.
void add_format(CLI::App& verb, std::string& format, std::vector<std::string> formats);

/// A CLI11 check for a whole number from 0 to 2^63 - 1. CLI11 itself reads -1 as 2^64 - 1.
CLI::Validator is_seed();

/// A CLI11 check for a name of the enum E.
template <NamedEnum E>
CLI::IsMember one_of() {
  constexpr auto known = all_words<E>();
  return CLI::IsMember(std::vector<std::string>(known.begin(), known.end()));
}

}  // namespace baechi
