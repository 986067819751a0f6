#include "scenarios/read/scenario_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "scenarios/read/catalogue.h"
#include "scenarios/read/load.h"
#include "scenarios/read/sections.h"
#include "scenarios/results/columns.h"

namespace baechi {
namespace {

using Declared = std::vector<Options::Declared>;

std::string type_name(const Options::Declared& d) {
  switch (d.type) {
    case Options::Type::boolean:
      return "true or false";
    case Options::Type::whole:
      return "whole number";
    case Options::Type::number:
      return "number";
    case Options::Type::text:
      return "text";
    case Options::Type::size:
      return "size, `8 GiB`";
    case Options::Type::time:
      return "time, `134 us`";
    case Options::Type::rate:
      return "rate, `5.7 GB/s`";
    case Options::Type::flop_rate:
      return "rate, `4.7 TFLOP/s`";
    case Options::Type::one_of:
      return fmt::format("`{}`", fmt::join(d.allowed, "`, `"));
    case Options::Type::path:
      return "path";
    case Options::Type::any:
      return "";
  }
  return "";
}

std::string in_table(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string sentence(std::string_view text) {
  std::string out(text);
  if (!out.empty() && out[0] >= 'a' && out[0] <= 'z')
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out + '.';
}

void append_options(std::string& out, const Declared& options,
                    const std::vector<std::string>& needed) {
  out += "\n| key | value | default | |\n| --- | --- | --- | --- |\n";
  for (const Options::Declared& d : options) {
    const bool must = std::ranges::find(needed, d.key) != needed.end();
    out += fmt::format("| `{}` | {} | {} | {} |\n", d.key, in_table(type_name(d)),
                       must                 ? "needed"
                       : d.fallback.empty() ? "none"
                                            : fmt::format("`{}`", in_table(d.fallback)),
                       in_table(d.help));
  }
}

/// Whether `component` has the option, in the same words; its default may be another.
bool has_option(const Component& component, const Options::Declared& option) {
  return std::ranges::any_of(component.options, [&](const Options::Declared& d) {
    return d.key == option.key && d.help == option.help;
  });
}

/// Options that all components have stand once, and again where their default is another.
void append_components(std::string& out, std::string_view title, std::string_view use,
                       const std::vector<Component>& all) {
  out += fmt::format("\n## {}\n\n{}\n", title, use);
  Declared shared;
  for (const Options::Declared& option : all.front().options)
    if (all.size() > 1 &&
        std::ranges::all_of(all, [&](const Component& c) { return has_option(c, option); }))
      shared.push_back(option);
  if (!shared.empty()) {
    out += "\nAll have these options. Another default stands at the name.\n";
    append_options(out, shared, {});
  }
  for (const Component& c : all) {
    out += fmt::format("\n### `{}`\n\n{} ({}).\n", c.name, c.summary, c.source);
    Declared own = c.options;
    std::erase_if(own, [&](const Options::Declared& option) {
      return std::ranges::any_of(shared, [&](const Options::Declared& s) {
        return s.key == option.key && s.fallback == option.fallback;
      });
    });
    if (!own.empty()) append_options(out, own, {});
    if (c.of_inference.empty()) continue;
    out += "\nWith another `pass` than train, and with `kv_lora_rank`:\n";
    append_options(out, c.of_inference, {});
  }
}

constexpr std::string_view introduction = R"(# Reference of scenarios

All keys of a scenario (`baechi schema --reference`). scenarios/README.md explains how a scenario is built.

| key | |
| --- | --- |
)";

constexpr std::string_view about_measures =
    R"(`measure: [NAME, {NAME: {OPTION: VALUE or [VALUE, ...], ...}}, ...]`; without the key, `step_time` alone. An option with a
list of values stands for one measure of each.

    measure: [step_time, max_load, {latency: {}}, {pipeline: {schedule: 1f1b_flush, micro_batches: [8, 32]}}]

A measure turns a placement into the value of a row. A placer places once per point and seed, and each measure gives a row for
this placement. Placers do not know the measures. To minimise load or latency, give the placer this objective
(`{search: {objective: max_load}}`). Each measure has tables and charts of its own.

`pipeline` makes a stage of each device of the placement. The graph is the work of one micro-batch, and the value is the time
per micro-batch. A placement that cannot run as a pipeline (`sim/pipeline/README.md`) is `infeasible`, and `detail` says why.)";

}  // namespace

std::string scenario_reference() {
  const Catalogue components = catalogue();
  std::string out(introduction);
  for (const TopKey& k : top_keys()) out += fmt::format("| `{}` | {} |\n", k.key, k.help);
  std::vector<SectionKeys> sections = section_keys();
  std::ranges::stable_sort(sections, {}, [](const SectionKeys& b) { return b.section; });
  for (const SectionKeys& b : sections) {
    out += fmt::format("\n## `{}`\n\n{}\n", b.section, sentence(b.help));
    append_options(out, b.keys, b.needed);
  }
  append_components(out, "Graphs: generators", "`graph: {generate: NAME, OPTION: VALUE, ...}`",
                    components.generators);
  append_components(out, "Graphs: importers",
                    "`graph: {import: FILE, OPTION: VALUE, ...}`; add `importer: NAME` if the "
                    "file's content does not show its format.",
                    components.importers);
  append_components(out, "Collectives: cost models",
                    "`cluster.collectives: {model: NAME, OPTION: VALUE, ...}`, or `{kind: NAME}` "
                    "for one that 'baechi list collective_kinds' knows.",
                    components.collectives);
  append_components(out, "Transforms", "`transforms: [NAME, {NAME: {OPTION: VALUE, ...}}, ...]`",
                    components.transforms);
  append_components(out, "Placers", "`placers: [NAME, {NAME: {OPTION: VALUE, ...}}, ...]`",
                    components.placers);
  append_components(out, "Measures", about_measures, components.measures);
  out +=
      "\n## Columns of `results.csv`\n\nThe swept keys that have no column here follow them.\n\n";
  for (const Column& column : fixed_columns())
    out += fmt::format("{}`{}`", column.type == ColumnType::id ? "" : ", ", column.name);
  return out + ".\n";
}

}  // namespace baechi
