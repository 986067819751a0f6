/// What several verbs take on the command line.
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

/// "NAME" or "NAME:key=value,key=value", as --placer and --importer take it. Of "exec:PATH" the
/// path belongs to the name. `flag` is the place for messages.
/// Throws InputError on a part that is not key=value, or a key given twice.
Choice parse_choice(std::string_view text, const std::string& flag);

/// The options of `owner` from "key=value" texts. Throws InputError as parse_choice does.
Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag);

/// A graph file, and --importer.
struct TraceArgument {
  std::string path;
  std::string importer;  ///< as parse_choice takes it; "" lets the file's content choose
};
void add_trace_argument(CLI::App& verb, TraceArgument& argument);
/// A graph without a name is called as its file.
Trace read_trace(const TraceArgument& argument);

/// --format, one of `formats`; the first is the default.
void add_format(CLI::App& verb, std::string& format, std::vector<std::string> formats);

/// A check that a flag is one of the words of an enum.
template <NamedEnum E>
CLI::IsMember one_of() {
  constexpr auto known = all_words<E>();
  return CLI::IsMember(std::vector<std::string>(known.begin(), known.end()));
}

}  // namespace baechi
