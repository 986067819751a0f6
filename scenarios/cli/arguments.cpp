#include "scenarios/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "scenarios/cli/progress.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/run/build.h"
#include "scenarios/run/prepared_graph.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

/// Parses "[a,b]" as a list and any other text as a word.
Options::Value value_of(const std::string& text, const std::string& flag) {
  Options::Value value{text, flag, {}};
  if (text.size() < 2 || !text.starts_with('[') || !text.ends_with(']')) return value;
  value.text.clear();
  for (const std::string& item : split_at_commas(std::string_view(text).substr(1, text.size() - 2)))
    value.children.emplace_back("", value_of(item, flag));
  return value;
}

}  // namespace

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag) {
  Mistakes mistakes;
  std::map<std::string, Options::Value> values;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      mistakes.add(fmt::format("{}{}: '{}' is not key=value", at(flag), owner, assignment));
      continue;
    }
    const std::string key = assignment.substr(0, equals);
    const Options::Value value = value_of(assignment.substr(equals + 1), flag);
    if (!values.emplace(key, value).second)
      mistakes.add(fmt::format("{}{}: '{}' is given twice", at(flag), owner, key));
  }
  mistakes.throw_if_any();
  return Options(std::string(owner), std::move(values));
}

Choice parse_choice(std::string_view text, const std::string& flag) {
  constexpr std::string_view program = "exec:";  // the name of an external placer contains its path
  const std::size_t end = text.starts_with(program) ? text.find(',') : text.find(':');
  Choice choice;
  choice.name = text.substr(0, end);
  choice.where = flag;
  choice.label = text;
  std::vector<std::string> assignments;
  if (end != std::string_view::npos) assignments = split_at_commas(text.substr(end + 1));
  const std::string_view owner = text.starts_with(program) ? "exec" : text.substr(0, end);
  choice.options = parse_options(owner, assignments, flag);
  return choice;
}

void add_trace_argument(CLI::App& verb, TraceArgument& argument) {
  verb.add_option("TRACE", argument.path, "Graph file, in any format that an importer reads")
      ->required()
      ->type_name("");
  verb.add_option(
          "--importer", argument.importer,
          "Importer that reads TRACE ('baechi list importers') [chosen by the file's content]")
      ->type_name("NAME[:k=v,...]");
}

Trace read_trace(const TraceArgument& argument) {
  Choice importer;
  if (!argument.importer.empty()) importer = parse_choice(argument.importer, "--importer");
  TextFile file(with_data_folder(argument.path));
  const Stage stage("reading " + argument.path, &file.bytes_read(), file.bytes());
  Trace trace = read_trace(file, importer.name, std::move(importer.options));
  if (trace.name.empty()) trace.name = std::filesystem::path(argument.path).stem().string();
  return trace;
}

void add_format(CLI::App& verb, std::string& format, std::vector<std::string> formats) {
  format = formats.front();
  const std::string allowed = fmt::format("{}", fmt::join(formats, "|"));
  verb.add_option("--format", format, "Format of the answer [" + format + "]")
      ->type_name(allowed)
      ->check(CLI::Validator(
          [formats](const std::string& text) {
            if (std::ranges::find(formats, text) != formats.end()) return std::string();
            return fmt::format("'{}' is not one of {}{}", text, fmt::join(formats, ", "),
                               did_you_mean(text, formats));
          },
          ""));
}

}  // namespace baechi
