#include "scenarios/read/scenario_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "scenarios/read/catalogue.h"
#include "scenarios/read/load.h"
#include "scenarios/read/sections.h"

namespace baechi {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Declared = std::vector<Options::Declared>;

/// The schema of one value. Every value may also be text, because quantities are.
OrderedJson schema_of(const Options::Declared& d) {
  OrderedJson s = OrderedJson::object();
  constexpr std::string_view number = R"(^[0-9.eE+-]+ *)";
  switch (d.type) {
    case Options::Type::boolean:
      s["type"] = "boolean";
      break;
    case Options::Type::whole:
      s["type"] = "integer";
      break;
    case Options::Type::number:
      s["type"] = "number";
      break;
    case Options::Type::size:
      s["pattern"] = fmt::format("{}(([kKMGT]i?)?B|[KMGT])$|^0$", number);
      break;
    case Options::Type::time:
      s["pattern"] = fmt::format("{}(ns|us|ms|s|min|h)$|^0$", number);
      break;
    case Options::Type::rate:
      s["pattern"] = fmt::format("{}([kKMGT]i?)?B/s$", number);
      break;
    case Options::Type::flop_rate:
      s["pattern"] = fmt::format("{}[MGTP]?FLOP/s$", number);
      break;
    case Options::Type::one_of:
      s["enum"] = d.allowed;
      break;
    case Options::Type::text:
    case Options::Type::path:
      s["type"] = {"string", "number", "boolean", "null"};
      break;
    case Options::Type::any:
      break;
  }
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

const SectionKeys& section(const std::vector<SectionKeys>& all, std::string_view name) {
  return *std::ranges::find(all, name, &SectionKeys::section);
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
  const std::vector<SectionKeys> all = section_keys();
  const auto of = [&](std::string_view name) {
    const SectionKeys& b = section(all, name);
    return object_of(b.keys, b.needed);
  };
  OrderedJson cluster = of("cluster");
  OrderedJson& p = cluster["properties"];
  const OrderedJson group = of("cluster.devices");
  p["devices"] = {{"anyOf", {group, {{"type", "array"}, {"items", group}}}}};
  p["link"] = of("cluster.link");
  p["links"] = {{"type", "array"}, {"items", of("cluster.links")}};
  p["fit"] = {{"anyOf", {{{"enum", {"baechi", "pytorch"}}}, of("cluster.fit")}}};
  const OrderedJson collectives = collectives_schema(components.collectives);
  OrderedJson nodes = of("cluster.nodes");
  for (const char* link : {"link", "unwired", "network"})
    nodes["properties"][link] = of("cluster.link");
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
  const std::vector<SectionKeys> all = section_keys();
  OrderedJson properties = OrderedJson::object();
  for (const char* what : {"devices", "links"}) {
    const SectionKeys& b = section(all, std::string("kinds.") + what);
    properties[what] = {{"type", "object"}, {"additionalProperties", object_of(b.keys, b.needed)}};
  }
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

std::string scenario_schema() {
  const Catalogue components = catalogue();
  const std::vector<SectionKeys> all = section_keys();
  const auto simple = [&](std::string_view name) {
    const SectionKeys& b = section(all, name);
    return object_of(b.keys, b.needed);
  };
  OrderedJson properties = OrderedJson::object();
  for (const TopKey& k : top_keys()) {
    OrderedJson s = OrderedJson::object();
    if (k.key == "name") s["type"] = {"string", "number"};
    if (k.key == "graph") s = graph_schema(components);
    if (k.key == "cluster") s = cluster_schema(components);
    if (k.key == "engine" || k.key == "profile" || k.key == "codesign" || k.key == "report")
      s = simple(k.key);
    if (k.key == "calibration")
      s = {{"anyOf", {simple(k.key), {{"type", "string"}, {"description", "path of the file"}}}}};
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
