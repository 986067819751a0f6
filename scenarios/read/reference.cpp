#include "scenarios/read/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "placers/registry.h"
#include "scenarios/read/blocks.h"
#include "scenarios/read/load.h"
#include "scenarios/results/columns.h"
#include "sim/error.h"
#include "sim/transform/transform.h"
#include "traces/format/compressed_file.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;
using Declared = std::vector<Options::Declared>;

struct Component {
  std::string name, summary, source;
  Declared options;
};

/// What a component asks for when it is given nothing.
Declared declared(auto ask) {
  Options options;
  try {
    ask(options);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // It cannot do without something; by then it has said what.
  }
  return options.declared();
}

std::vector<Component> placer_components() {
  std::vector<Component> all;
  for (const PlacerEntry& e : placers())
    all.push_back({std::string(e.name), std::string(e.summary), std::string(e.source),
                   declared([&](Options& o) { make(e, o); })});
  return all;
}

std::vector<Component> generator_components() {
  std::vector<Component> all;
  for (const GeneratorEntry& e : generators())
    all.push_back({std::string(e.name), std::string(e.summary), std::string(e.source),
                   declared([&](Options& o) { e.make(o); })});
  return all;
}

std::vector<Component> transform_components() {
  std::vector<Component> all;
  for (const TransformEntry& e : transforms())
    all.push_back({std::string(e.name), std::string(e.summary), std::string(e.source),
                   declared([&](Options& o) { e.make(o); })});
  return all;
}

std::vector<Component> importer_components() {
  std::vector<Component> all;
  for (const ImporterEntry& e : importers())
    all.push_back({std::string(e.name), std::string(e.summary), std::string(e.files),
                   declared([&](Options& o) {
                     TextFile none("", "");
                     e.read(none, o);
                   })});
  return all;
}

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

void append_components(std::string& out, std::string_view title, std::string_view use,
                       const std::vector<Component>& all) {
  out += fmt::format("\n## {}\n\n{}\n", title, use);
  for (const Component& c : all) {
    out += fmt::format("\n### `{}`\n\n{} ({}).\n", c.name, c.summary, c.source);
    if (!c.options.empty()) append_options(out, c.options, {});
  }
}

/// What editors need to know of a value. Every value may also be text, since quantities are.
Json schema_of(const Options::Declared& d) {
  Json s = Json::object();
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
      s["pattern"] = fmt::format("{}([kKMGT]i?)?B$|^0$", number);
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

Json object_of(const Declared& options, const std::vector<std::string>& needed = {}) {
  Json properties = Json::object();
  for (const Options::Declared& d : options) properties[d.key] = schema_of(d);
  Json s = {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  if (!needed.empty()) s["required"] = needed;
  return s;
}

const BlockKeys& block(const std::vector<BlockKeys>& all, std::string_view name) {
  return *std::ranges::find(all, name, &BlockKeys::block);
}

Json graph_schema() {
  Json any_of = Json::array();
  for (const Component& c : generator_components()) {
    Json s = object_of(c.options, {"generate"});
    s["properties"]["generate"] = {{"const", c.name}, {"description", c.summary}};
    any_of.push_back(std::move(s));
  }
  Json import = {{"type", "object"}, {"required", {"import"}}, {"properties", Json::object()}};
  import["properties"]["import"] = {
      {"type", "string"},
      {"description", "a graph file; relative to this file, ${NAME} is expanded"}};
  Json names = Json::array();
  for (const Component& c : importer_components()) {
    names.push_back(c.name);
    for (const Options::Declared& d : c.options) import["properties"][d.key] = schema_of(d);
  }
  import["properties"]["importer"] = {{"enum", names},
                                      {"description", "the file's content chooses if not given"}};
  import["additionalProperties"] = false;
  any_of.push_back(std::move(import));
  return {{"anyOf", any_of}};
}

Json cluster_schema() {
  const std::vector<BlockKeys> all = block_keys();
  const auto of = [&](std::string_view name) {
    const BlockKeys& b = block(all, name);
    return object_of(b.keys, b.needed);
  };
  Json cluster = of("cluster");
  Json& p = cluster["properties"];
  const Json group = of("cluster.devices");
  p["devices"] = {{"anyOf", {group, {{"type", "array"}, {"items", group}}}}};
  p["link"] = of("cluster.link");
  p["links"] = {{"type", "array"}, {"items", of("cluster.links")}};
  p["fit"] = {{"anyOf", {{{"enum", {"baechi", "pytorch"}}}, of("cluster.fit")}}};
  return {
      {"anyOf",
       {cluster, {{"type", "string"}, {"description", "path of a file with a cluster block"}}}}};
}

/// One of `components`: NAME, or {NAME: {option: value, ...}}.
Json choice_schema(const std::vector<Component>& components) {
  Json names = Json::array(), properties = Json::object();
  for (const Component& c : components) {
    names.push_back({{"const", c.name}, {"description", c.summary}});
    properties[c.name] = object_of(c.options);
    properties[c.name]["type"] = {"object", "null"};
    properties[c.name]["description"] = c.summary;
  }
  const Json with_options = {{"type", "object"},
                             {"additionalProperties", false},
                             {"minProperties", 1},
                             {"maxProperties", 1},
                             {"properties", properties}};
  return {{"anyOf", {{{"oneOf", names}}, with_options}}};
}

Json placers_schema() {
  return {{"type", "array"}, {"minItems", 1}, {"items", choice_schema(placer_components())}};
}

Json transforms_schema() {
  const Json one = choice_schema(transform_components());
  return {{"anyOf", {{{"const", "none"}}, one, {{"type", "array"}, {"items", one}}}}};
}

Json kinds_schema() {
  const std::vector<BlockKeys> all = block_keys();
  Json properties = Json::object();
  for (const char* what : {"devices", "links"}) {
    const BlockKeys& b = block(all, std::string("kinds.") + what);
    properties[what] = {{"type", "object"}, {"additionalProperties", object_of(b.keys, b.needed)}};
  }
  const Json kinds = {{"type", "object"},
                      {"additionalProperties", false},
                      {"properties", properties},
                      {"patternProperties", {{"^x-", Json::object()}}}};
  return {{"anyOf",
           {kinds, {{"type", "string"}, {"description", "path of a file with such a block"}}}}};
}

constexpr std::string_view large_sweeps = R"(
## Large sweeps

What is found depends on the scenario alone: `results.*` and `report.html` are the same bytes, but for `placing_ms`, on any
number of threads, processes and machines. Every finished run is appended to `DIR/runs.journal`, which goes once the results
are written. A run that was interrupted or killed, or whose machine went down, loses what was in flight (of a machine that
goes down, some seconds); the same command with `--resume` runs the rest. `--resume` knows a run again by a hash of the program's
version, the graph's content, cluster, engine, profile, placer and seed, not by its place: a sweep that has grown since runs
what is new. Files that a placer's options name are not in that hash.

A laptop, or one machine: threads.

    baechi run my.yaml --out results/my -j 16
    baechi run my.yaml --out results/my -j 16 --resume     # after Ctrl-C, kill -9, a power cut

One or several machines by MPI: one process per machine, threads in each. Rank 0 reads the scenario, as all do, deals out
runs, alone writes, and works with what threads it has left. If a process dies, so does the job; resume it. Built where Open
MPI is installed (Debian: `libopenmpi-dev`).

    mpirun --bind-to none --map-by ppr:1:node baechi run my.yaml --out results/my --resume
    mpirun --oversubscribe -n 3 baechi run my.yaml --out results/my -j 1      # to try it on a laptop

A Slurm cluster: the same in a job, or, without MPI, an array of shards that know nothing of each other, and are then merged.
`--shard I/N` takes every N-th point in an order without pattern.

    sbatch --nodes 8 scenarios/slurm/mpi.sbatch my.yaml results/my

    sbatch --array 1-16 scenarios/slurm/array.sbatch my.yaml results/my 16
    baechi merge results/my.* --out results/my

Anything that starts programs will do for shards, such as GNU parallel:

    parallel baechi run my.yaml --out results/my.{} --shard {}/16 --resume -j 1 --quiet ::: $(seq 16)
    baechi merge results/my.* --out results/my

All machines need to see the same files under the same paths; folders of shards may lie anywhere.
)";

}  // namespace

std::string scenario_reference() {
  std::string out =
      "# Scenarios\n\n"
      "A scenario says what to run: a graph, on a cluster, under an engine, placed by placers; a "
      "sweep makes it\n"
      "many. `baechi run FILE...` runs it. This page is generated (`baechi schema --reference`), a "
      "test keeps it\n"
      "true; `scenario.schema.json` beside it tells editors the same.\n\n"
      "```yaml\n"
      "name: tight_memory\n"
      "graph: {generate: layered, ops: 600}\n"
      "cluster:\n"
      "  devices: {count: 4, memory: 8 GiB}\n"
      "  link: {bandwidth: 5.7 GB/s, latency: 134 us}\n"
      "placers: [m_topo, m_etf, {m_sct: {threshold: 0.2}}]\n"
      "sweep:\n"
      "  cluster.memory_fraction: [0.1, 0.2, 0.5, 1.0]\n"
      "```\n\n"
      "Quantities are a number and a unit. Paths are relative to the file they stand in; in those "
      "and in options\n"
      "`${NAME}` is a variable of the environment. Keys that begin with `x-` are yours (for YAML "
      "anchors).\n"
      "`--set KEY=VALUE` overrides a dotted key.\n\n"
      "| key | |\n| --- | --- |\n";
  for (const TopKey& k : top_keys()) out += fmt::format("| `{}` | {} |\n", k.key, k.help);
  out +=
      "\n## Sweep\n\n"
      "Each key of `sweep` is a dotted key below `graph`, `transforms`, `cluster`, `engine` or "
      "`profile` "
      "(items "
      "of lists by\n"
      "number: `cluster.devices.0.count`), or one of these blocks, or `placers` or `seeds`; its "
      "value is the list\n"
      "of values it takes. Every combination is a point; points are numbered: graphs vary slowest, "
      "then transforms,\n"
      "clusters, engines, placers and seeds; within a block the axis written last varies fastest. "
      "In `graph.import`, "
      "`*` and `?` stand\n"
      "for the files they match.\n\n"
      "```yaml\n"
      "sweep:\n"
      "  graph.import: [\"${BAECHI_SHARED}/data/pipedream/*_graph.txt\"]\n"
      "  cluster.devices.count: [2, 4, 8]\n"
      "  engine.transfers: [sequential, parallel]\n"
      "  cluster.link.bandwidth: [1 GB/s, 10 GB/s]\n"
      "```\n";
  std::vector<BlockKeys> blocks = block_keys();
  std::ranges::stable_sort(blocks, {}, [](const BlockKeys& b) { return b.block; });
  for (const BlockKeys& b : blocks) {
    out += fmt::format("\n## `{}`\n\n{}\n", b.block, sentence(b.help));
    append_options(out, b.keys, b.needed);
  }
  append_components(out, "Graphs: generators", "`graph: {generate: NAME, OPTION: VALUE, ...}`",
                    generator_components());
  append_components(out, "Graphs: importers",
                    "`graph: {import: FILE, OPTION: VALUE, ...}`; `importer: NAME` where the "
                    "file's content does not tell.",
                    importer_components());
  append_components(out, "Transforms", "`transforms: [NAME, {NAME: {OPTION: VALUE, ...}}, ...]`",
                    transform_components());
  append_components(out, "Placers", "`placers: [NAME, {NAME: {OPTION: VALUE, ...}}, ...]`",
                    placer_components());
  out +=
      "\n## Results\n\n"
      "`baechi run` writes into `--out` (or `results/NAME`) `report.html`, `results.csv` and "
      "`results.sqlite`, the\n"
      "same bytes for any `-j` but for `placing_ms`. A row is one placer on one point with one "
      "seed; its `status` is\n"
      "`ok`, `oom` (the step ran out of memory: `detail` says where), `infeasible` (the placer "
      "found no placement\n"
      "that fits) or `error`. `lower_bound_us` is what no placement can beat, `gap` the share of "
      "the step time above\n"
      "it: 0 is optimal. The columns of `results.csv`, behind which the swept keys follow that "
      "they do not show:\n\n";
  for (const Column& column : fixed_columns())
    out += fmt::format("{}`{}`", column.type == ColumnType::id ? "" : ", ", column.name);
  out +=
      ".\n\n`results.sqlite` has the same rows (`results`), what the placers told (`facts`), where "
      "each run lies in\n"
      "the sweep (`runs`, `run_axes`), a hash of all that decides it\n"
      "(`runs.key`), the placements (`placements.devices`: a byte per op, two of "
      "more than 256\n"
      "devices; the ops' names in `graphs.op_names`), the steps that the report draws "
      "(`pictures`), the scenarios'\n"
      "text and the program's version.\n\n"
      "`report.html` needs nothing but itself: tables, charts of step time and peak memory along "
      "any axis, and of\n"
      "some points (`report.pictures`) what each device did and held over time. For "
      "ui.perfetto.dev "
      "there are\n"
      "`ID.PLACER.trace.json.gz` of chosen runs (`report.timelines`, or `baechi run --timelines "
      "best|all`): each is\n"
      "simulated once more for it. `baechi report DIR --plots` rebuilds the page and draws the "
      "same as SVG and PDF\n"
      "into `DIR/plots`, with gnuplot, whose scripts stay there to be changed.\n";
  return out + std::string(large_sweeps);
}

std::string scenario_schema() {
  const std::vector<BlockKeys> all = block_keys();
  const auto simple = [&](std::string_view name) {
    const BlockKeys& b = block(all, name);
    return object_of(b.keys, b.needed);
  };
  Json properties = Json::object();
  for (const TopKey& k : top_keys()) {
    Json s = Json::object();
    if (k.key == "name") s["type"] = {"string", "number"};
    if (k.key == "graph") s = graph_schema();
    if (k.key == "cluster") s = cluster_schema();
    if (k.key == "engine" || k.key == "profile" || k.key == "report") s = simple(k.key);
    if (k.key == "calibration")
      s = {{"anyOf", {simple(k.key), {{"type", "string"}, {"description", "path of the file"}}}}};
    if (k.key == "transforms") s = transforms_schema();
    if (k.key == "kinds") s = kinds_schema();
    if (k.key == "placers") s = placers_schema();
    if (k.key == "seeds")
      s = {{"type", {"array", "integer"}}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
    if (k.key == "sweep")
      s = {{"type", "object"},
           {"propertyNames",
            {{"pattern", R"(^((graph|transforms|cluster|engine|profile)(\..+)?|placers|seeds)$)"}}},
           {"additionalProperties", {{"type", "array"}, {"minItems", 1}}}};
    s["description"] = k.help;
    properties[std::string(k.key)] = std::move(s);
  }
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Baechi-Sim scenario"},
                       {"type", "object"},
                       {"properties", properties},
                       {"patternProperties", {{"^x-", Json::object()}}},
                       {"additionalProperties", false}};
  return schema.dump(1) + "\n";
}

}  // namespace baechi
