#include "scenarios/read/scenario_schema.h"

#include <nlohmann/json.hpp>

#include "placers/interface/registry.h"
#include "scenarios/read/sections.h"
#include "scenarios/results/results.h"
#include "sim/collectives/collective_models.h"
#include "traces/format/compressed_file.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

/// The options that `make` declares, given `none`.
std::vector<Options::Declared> declared(auto make, Options none = {}) {
  try {
    make(none);
  } catch (const InputError&) {
    return none.declared();  // a required option is missing; all options were declared before
  }
  return none.declared();
}

Component component(std::string_view name, std::string summary, std::string_view source,
                    auto make) {
  return {std::string(name), std::move(summary), std::string(source), declared(make)};
}

/// The row's summary, followed by what the placer counts as memory.
std::string summary_of(const PlacerEntry& e) {
  return fmt::format("{}; {}", e.summary, meaning(e.memory));
}

using Declared = std::vector<Options::Declared>;

/// A type of options, in the reference and in JSON Schema.
struct ValueType {
  Options::Type type;
  std::string_view words, schema;
};
constexpr std::string_view plain_value = R"({"type": ["string", "number", "boolean", "null"]})";
constexpr ValueType value_types[] = {
    {Options::Type::boolean, "true or false", R"({"type": "boolean"})"},
    {Options::Type::whole, "whole number", R"({"type": "integer"})"},
    {Options::Type::number, "number", R"({"type": "number"})"},
    {Options::Type::text, "text", plain_value},
    {Options::Type::path, "path", plain_value},
    {Options::Type::size, "size, `8 GiB`",
     R"({"pattern": "^[0-9.eE+-]+ *(([kKMGT]i?)?B|[KMGT])$|^0$"})"},
    {Options::Type::time, "time, `134 us`",
     R"({"pattern": "^[0-9.eE+-]+ *(ns|us|ms|s|min|h)$|^0$"})"},
    {Options::Type::rate, "rate, `5.7 GB/s`", R"({"pattern": "^[0-9.eE+-]+ *([kKMGT]i?)?B/s$"})"},
    {Options::Type::flop_rate, "rate, `4.7 TFLOP/s`",
     R"({"pattern": "^[0-9.eE+-]+ *[MGTP]?FLOP/s$"})"},
    {Options::Type::any, "", "{}"}};

const ValueType& value_type(const Options::Declared& d) {
  return *std::ranges::find(value_types, d.type, &ValueType::type);
}

std::string type_name(const Options::Declared& d) {
  if (d.type == Options::Type::one_of) return fmt::format("`{}`", fmt::join(d.allowed, "`, `"));
  return std::string(value_type(d).words);
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
    out += fmt::format("| `{}` | {} | {} | {} |\n", d.key, markdown_cell(type_name(d)),
                       must                 ? "needed"
                       : d.fallback.empty() ? "none"
                                            : fmt::format("`{}`", markdown_cell(d.fallback)),
                       markdown_cell(d.help));
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

using OrderedJson = nlohmann::ordered_json;

/// The schema of one value. Every value may also be text, because quantities are.
OrderedJson schema_of(const Options::Declared& d) {
  OrderedJson s = d.type == Options::Type::one_of ? OrderedJson{{"enum", d.allowed}}
                                                  : OrderedJson::parse(value_type(d).schema);
  s["description"] = d.fallback.empty() ? d.help : fmt::format("{} [{}]", d.help, d.fallback);
  return s;
}

OrderedJson object_of(const Declared& options, const std::vector<std::string>& needed = {}) {
  OrderedJson properties = OrderedJson::object();
  for (const Options::Declared& d : options) properties[d.key] = schema_of(d);
  OrderedJson s = {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  if (!needed.empty()) s["required"] = needed;
  return s;
}

OrderedJson section_schema(std::string_view name) {
  const std::vector<SectionKeys> all = section_keys();
  const SectionKeys& section = *std::ranges::find(all, name, &SectionKeys::section);
  return object_of(section.keys, section.needed);
}

OrderedJson graph_schema(const Catalogue& all) {
  OrderedJson any_of = OrderedJson::array();
  for (const Component& c : all.generators) {
    OrderedJson s = object_of(c.options, {"generate"});
    for (const Options::Declared& d : c.of_inference) s["properties"][d.key] = schema_of(d);
    s["properties"]["generate"] = {{"const", c.name}, {"description", c.summary}};
    any_of.push_back(std::move(s));
  }
  OrderedJson import = {
      {"type", "object"}, {"required", {"import"}}, {"properties", OrderedJson::object()}};
  import["properties"]["import"] = {
      {"type", "string"},
      {"description", "a graph file; relative to this file, ${NAME} is expanded"}};
  OrderedJson names = OrderedJson::array();
  for (const Component& c : all.importers) {
    names.push_back(c.name);
    for (const Options::Declared& d : c.options) import["properties"][d.key] = schema_of(d);
  }
  import["properties"]["importer"] = {{"enum", names},
                                      {"description", "the file's content chooses if not given"}};
  import["additionalProperties"] = false;
  any_of.push_back(std::move(import));
  return {{"anyOf", any_of}};
}

/// Accepts NAME, {model: NAME, option: value, ...} or {kind: NAME, option: value, ...}.
OrderedJson collectives_schema(const std::vector<Component>& models) {
  OrderedJson names = OrderedJson::array(), any_of = OrderedJson::array();
  for (const Component& c : models)
    names.push_back({{"const", c.name}, {"description", c.summary}});
  any_of.push_back({{"oneOf", names}});
  for (const Component& c : models) {
    OrderedJson s = object_of(c.options, {"model"});
    s["properties"]["model"] = {{"const", c.name}, {"description", c.summary}};
    any_of.push_back(std::move(s));
  }
  any_of.push_back({{"type", "object"},
                    {"required", {"kind"}},
                    {"properties", {{"kind", {{"type", "string"}}}}}});
  return {{"anyOf", any_of}};
}

OrderedJson cluster_schema(const Catalogue& components) {
  OrderedJson cluster = section_schema("cluster");
  OrderedJson& p = cluster["properties"];
  const OrderedJson group = section_schema("cluster.devices");
  p["devices"] = {{"anyOf", {group, {{"type", "array"}, {"items", group}}}}};
  p["link"] = section_schema("cluster.link");
  p["links"] = {{"type", "array"}, {"items", section_schema("cluster.links")}};
  p["fit"] = {{"anyOf", {{{"enum", {"baechi", "pytorch"}}}, section_schema("cluster.fit")}}};
  const OrderedJson collectives = collectives_schema(components.collectives);
  OrderedJson nodes = section_schema("cluster.nodes");
  for (const char* link : {"link", "unwired", "network"})
    nodes["properties"][link] = section_schema("cluster.link");
  nodes["properties"]["devices"] = group;
  nodes["properties"]["collectives"] = collectives;
  p["nodes"] = {{"anyOf", {nodes, {{"type", "array"}, {"items", nodes}}}}};
  p["collectives"] = collectives;
  return {
      {"anyOf",
       {cluster, {{"type", "string"}, {"description", "path of a file with a cluster section"}}}}};
}

/// Accepts one of `components`: NAME, or {NAME: {option: value, ...}}.
OrderedJson choice_schema(const std::vector<Component>& components) {
  OrderedJson names = OrderedJson::array(), properties = OrderedJson::object();
  for (const Component& c : components) {
    names.push_back({{"const", c.name}, {"description", c.summary}});
    properties[c.name] = object_of(c.options);
    properties[c.name]["type"] = {"object", "null"};
    properties[c.name]["description"] = c.summary;
  }
  const OrderedJson with_options = {{"type", "object"},
                                    {"additionalProperties", false},
                                    {"minProperties", 1},
                                    {"maxProperties", 1},
                                    {"properties", properties}};
  return {{"anyOf", {{{"oneOf", names}}, with_options}}};
}

/// Every option of a measure may be a list, which gives one measure per value.
OrderedJson measures_schema(const Catalogue& all) {
  OrderedJson one = choice_schema(all.measures);
  for (auto& [name, options] : one["anyOf"][1]["properties"].items())
    for (auto& [key, value] : options["properties"].items())
      value = {{"anyOf", {value, {{"type", "array"}, {"minItems", 1}, {"items", value}}}}};
  return {{"anyOf", {one, {{"type", "array"}, {"minItems", 1}, {"items", one}}}}};
}

OrderedJson placers_schema(const Catalogue& all) {
  OrderedJson choice = choice_schema(all.placers);
  OrderedJson& named = choice["anyOf"][1];
  named["maxProperties"] = 2;
  named["properties"]["name"] = {{"type", "string"}, {"description", "its name in results"}};
  return {{"type", "array"}, {"minItems", 1}, {"items", choice}};
}

OrderedJson transforms_schema(const Catalogue& all) {
  const OrderedJson one = choice_schema(all.transforms);
  return {{"anyOf", {{{"const", "none"}}, one, {{"type", "array"}, {"items", one}}}}};
}

OrderedJson kinds_schema() {
  OrderedJson properties = OrderedJson::object();
  for (const std::string what : {"devices", "links"})
    properties[what] = {{"type", "object"},
                        {"additionalProperties", section_schema("kinds." + what)}};
  for (const char* what : {"nodes", "collectives"})
    properties[what] = {{"type", "object"}, {"additionalProperties", {{"type", "object"}}}};
  const OrderedJson kinds = {{"type", "object"},
                             {"additionalProperties", false},
                             {"properties", properties},
                             {"patternProperties", {{"^x-", OrderedJson::object()}}}};
  return {{"anyOf",
           {kinds, {{"type", "string"}, {"description", "path of a file with such a section"}}}}};
}

}  // namespace

std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

Catalogue catalogue() {
  Catalogue all;
  for (const PlacerEntry& e : placers())
    all.placers.push_back(
        component(e.name, summary_of(e), e.source, [&](Options& o) { make(e, o); }));
  const auto add = [](std::vector<Component>& to, const auto& entries) {
    for (const auto& e : entries)
      to.push_back(
          component(e.name, std::string(e.summary), e.source, [&](Options& o) { e.make(o); }));
  };
  add(all.objectives, objectives());
  add(all.measures, measures());
  add(all.transforms, transforms());
  for (const GeneratorEntry& e : generators())
    all.generators.push_back(component(e.name, std::string(e.summary), e.source,
                                       [&](Options& o) { make_generated(e, o); }));
  for (Component& c : all.generators) {
    if (std::ranges::find(c.options, "pass", &Options::Declared::key) == c.options.end()) continue;
    const auto& entry = find_entry(generators(), "generator", c.name);
    c.of_inference = declared([&](Options& o) { entry.make(o); },
                              Options("", {{"pass", {"decode", ""}}, {"kv_lora_rank", {"1", ""}}}));
    std::erase_if(c.of_inference, [&](const Options::Declared& o) {
      return std::ranges::find(c.options, o.key, &Options::Declared::key) != c.options.end();
    });
  }
  add(all.collectives, collective_models());
  for (const ImporterEntry& e : importers())
    all.importers.push_back(component(e.name, std::string(e.summary), e.files, [&](Options& o) {
      TextFile none("", "");
      e.read(none, o);
    }));
  return all;
}

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

std::string scenario_schema() {
  const Catalogue components = catalogue();
  OrderedJson properties = OrderedJson::object();
  for (const TopKey& k : top_keys()) {
    OrderedJson s = OrderedJson::object();
    if (k.key == "name") s["type"] = {"string", "number"};
    if (k.key == "graph") s = graph_schema(components);
    if (k.key == "cluster") s = cluster_schema(components);
    if (k.key == "engine" || k.key == "profile" || k.key == "codesign" || k.key == "report")
      s = section_schema(k.key);
    if (k.key == "calibration")
      s = {{"anyOf",
            {section_schema(k.key), {{"type", "string"}, {"description", "path of the file"}}}}};
    if (k.key == "transforms") s = transforms_schema(components);
    if (k.key == "kinds") s = kinds_schema();
    if (k.key == "placers") s = placers_schema(components);
    if (k.key == "measure") s = measures_schema(components);
    if (k.key == "seeds")
      s = {{"type", {"array", "integer"}}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
    if (k.key == "sweep")
      s = {{"type", "object"},
           {"propertyNames",
            {{"pattern",
              R"(^((graph|transforms|cluster|engine|profile)(\..+)?|placers|seeds|measure)$)"}}},
           {"additionalProperties", {{"type", "array"}, {"minItems", 1}}}};
    s["description"] = k.help;
    properties[std::string(k.key)] = std::move(s);
  }
  const OrderedJson schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                              {"title", "Baechi-Sim scenario"},
                              {"type", "object"},
                              {"properties", properties},
                              {"patternProperties", {{"^x-", OrderedJson::object()}}},
                              {"additionalProperties", false}};
  return schema.dump(1) + "\n";
}

}  // namespace baechi
