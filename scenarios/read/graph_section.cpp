#include <algorithm>
#include <filesystem>

#include "scenarios/read/data_folder.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/section.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/tree.h"
#include "sim/options.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {

using Value = Options::Value;

namespace {

bool is_regular(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

/// The file of `import`, relative to `base` or, if there is none, to the installed data folder.
/// Throws InputError if neither exists.
std::string graph_file(const Value& import, const std::string& base) {
  std::string file = resolve_path(import, base);
  if (is_regular(file)) return file;
  const std::filesystem::path data = data_folder();
  const std::string brought = (data / import.text).string();
  if (!data.empty() && is_regular(brought)) return brought;
  throw InputError(fmt::format("{}graph.import: no file '{}'", at(import.where), file));
}

}  // namespace

GraphChoice read_graph(const Value& section, const std::string& base, Mistakes& mistakes) {
  GraphChoice graph;
  graph.where = section.where;
  graph.text = one_line(section);
  const Value* generate = find(section, "generate");
  const Value* import = find(section, "import");
  if ((generate == nullptr) == (import == nullptr)) {
    mistakes.add(fmt::format("{}graph: it needs either 'generate: NAME' or 'import: FILE'",
                             at(section.where)));
    return graph;
  }
  mistakes.attempt([&] {
    if (generate != nullptr) {
      mistakes.attempt(
          [&] { find_entry(generators(), "generator", generate->text, generate->where); });
      graph.generate = {.name = generate->text,
                        .options = options_of(section, generate->text, base, {"generate"}),
                        .where = generate->where};
      return;
    }
    if (const Value* importer = find(section, "importer")) {
      graph.importer = importer->text;
      mistakes.attempt(
          [&] { find_entry(importers(), "importer", importer->text, importer->where); });
    }
    graph.import_options = options_of(section, "import", base, {"import", "importer"});
    if (is_pattern(import->text))
      throw InputError(
          fmt::format("{}graph.import: a pattern ('{}') is only allowed in a sweep: sweep: "
                      "{{graph.import: [...]}}",
                      at(import->where), import->text));
    graph.file = graph_file(*import, base);
  });
  return graph;
}

}  // namespace baechi
