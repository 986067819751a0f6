#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>

#include "cli/progress.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/run/build.h"
#include "scenarios/run/prepared_graph.h"
#include "sim/options.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
void add_trace_argument(CLI::App& verb, TraceArgument& argument) {
  add_argument(
      verb, "TRACE", argument.path,
      "Graph file, in any format that an importer reads; or a generator with options, such as "
      "llama:config=8b ('baechi list generators')");
  verb.add_option("--importer", argument.importer,
                  "Importer for TRACE ('baechi list importers') [chosen by the file's content]")
      ->type_name("NAME[:k=v,...]");
}

Trace read_trace(const TraceArgument& argument) {
  if (argument.importer.empty())
    if (std::optional<Trace> generated = load_generator_words(argument.path))
      return std::move(*generated);
  Choice importer;
  if (!argument.importer.empty()) importer = parse_choice(argument.importer, "--importer");
  TextFile file(with_data_folder(argument.path), Content::any);
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
            return not_one_of(text, formats);
          },
          ""));
}

CLI::Validator is_seed() {
  return {[](const std::string& text) {
            const auto seed = parse_number<std::int64_t>(text);
            if (seed && *seed >= 0) return std::string();
            return fmt::format("'{}' is not a whole number from 0 to {}", text,
                               std::numeric_limits<std::int64_t>::max());
          },
          ""};
}

}  // namespace baechi
