#include "scenarios/read/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "scenarios/read/blocks.h"
#include "scenarios/read/catalogue.h"
#include "scenarios/read/load.h"
#include "scenarios/results/columns.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;
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

Json graph_schema(const Catalogue& all) {
  Json any_of = Json::array();
  for (const Component& c : all.generators) {
    Json s = object_of(c.options, {"generate"});
    s["properties"]["generate"] = {{"const", c.name}, {"description", c.summary}};
    any_of.push_back(std::move(s));
  }
  Json import = {{"type", "object"}, {"required", {"import"}}, {"properties", Json::object()}};
  import["properties"]["import"] = {
      {"type", "string"},
      {"description", "a graph file; relative to this file, ${NAME} is expanded"}};
  Json names = Json::array();
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

/// NAME, {model: NAME, option: value, ...} or {kind: NAME, option: value, ...}.
Json collectives_schema(const std::vector<Component>& models) {
  Json names = Json::array(), any_of = Json::array();
  for (const Component& c : models)
    names.push_back({{"const", c.name}, {"description", c.summary}});
  any_of.push_back({{"oneOf", names}});
  for (const Component& c : models) {
    Json s = object_of(c.options, {"model"});
    s["properties"]["model"] = {{"const", c.name}, {"description", c.summary}};
    any_of.push_back(std::move(s));
  }
  any_of.push_back({{"type", "object"},
                    {"required", {"kind"}},
                    {"properties", {{"kind", {{"type", "string"}}}}}});
  return {{"anyOf", any_of}};
}

Json cluster_schema(const Catalogue& components) {
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
  const Json collectives = collectives_schema(components.collectives);
  Json nodes = of("cluster.nodes");
  for (const char* link : {"link", "unwired", "network"})
    nodes["properties"][link] = of("cluster.link");
  nodes["properties"]["devices"] = group;
  nodes["properties"]["collectives"] = collectives;
  p["nodes"] = {{"anyOf", {nodes, {{"type", "array"}, {"items", nodes}}}}};
  p["collectives"] = collectives;
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

/// Every option of a measure may be a list: a measure of each value.
Json measures_schema(const Catalogue& all) {
  Json one = choice_schema(all.measures);
  for (auto& [name, options] : one["anyOf"][1]["properties"].items())
    for (auto& [key, value] : options["properties"].items())
      value = {{"anyOf", {value, {{"type", "array"}, {"minItems", 1}, {"items", value}}}}};
  return {{"anyOf", {one, {{"type", "array"}, {"minItems", 1}, {"items", one}}}}};
}

Json placers_schema(const Catalogue& all) {
  Json choice = choice_schema(all.placers);
  Json& named = choice["anyOf"][1];
  named["maxProperties"] = 2;
  named["properties"]["name"] = {{"type", "string"}, {"description", "what results call it"}};
  return {{"type", "array"}, {"minItems", 1}, {"items", choice}};
}

Json transforms_schema(const Catalogue& all) {
  const Json one = choice_schema(all.transforms);
  return {{"anyOf", {{{"const", "none"}}, one, {{"type", "array"}, {"items", one}}}}};
}

Json kinds_schema() {
  const std::vector<BlockKeys> all = block_keys();
  Json properties = Json::object();
  for (const char* what : {"devices", "links"}) {
    const BlockKeys& b = block(all, std::string("kinds.") + what);
    properties[what] = {{"type", "object"}, {"additionalProperties", object_of(b.keys, b.needed)}};
  }
  for (const char* what : {"nodes", "collectives"})
    properties[what] = {{"type", "object"}, {"additionalProperties", {{"type", "object"}}}};
  const Json kinds = {{"type", "object"},
                      {"additionalProperties", false},
                      {"properties", properties},
                      {"patternProperties", {{"^x-", Json::object()}}}};
  return {{"anyOf",
           {kinds, {{"type", "string"}, {"description", "path of a file with such a block"}}}}};
}

constexpr std::string_view introduction = R"(# Scenarios

A scenario says what to run: a graph on a cluster, under an engine, placed by one or more placers. A sweep makes many runs
of it. `baechi run FILE...` runs it. `baechi schema --reference` generates this page, and a test compares them.
`scenario.schema.json` beside it tells editors the same.

```yaml
name: tight_memory
graph: {generate: layered, ops: 600}
cluster:
  devices: {count: 4, memory: 8 GiB}
  link: {bandwidth: 5.7 GB/s, latency: 134 us}
placers: [m_topo, m_etf, {name: eager, m_sct: {threshold: 0.2}}]
sweep:
  cluster.memory_fraction: [0.1, 0.2, 0.5, 1.0]
```

A quantity is a number and a unit. A path is relative to the file it stands in. In paths and in options `${NAME}` is a
variable of the environment. A placer's `name` is what results and charts call it. Keys that begin with `x-` are ignored: they
are for YAML anchors. `--set KEY=VALUE` overrides a dotted key.

| key | |
| --- | --- |
)";

constexpr std::string_view about_sweeps = R"(
## Sweep

A key of `sweep` is

- a dotted key below `graph`, `transforms`, `cluster`, `engine` or `profile`; items of lists go by number:
  `cluster.devices.0.count`;
- one of these blocks as a whole; or
- `placers`, `seeds` or `measure`.

Its value is the list of values that it takes. Every combination is a point. Points are numbered: graphs vary slowest, then
transforms, clusters, engines, placers, seeds and measures. Within a block the axis that is written last varies fastest. In
`graph.import`, `*` and `?` stand for the files they match.

```yaml
sweep:
  graph.import: ["${BAECHI_SHARED}/data/pipedream/*_graph.txt"]
  cluster.devices.count: [2, 4, 8]
  engine.transfers: [sequential, parallel]
  cluster.link.bandwidth: [1 GB/s, 10 GB/s]
```
)";

constexpr std::string_view about_measures =
    R"(`measure: [NAME, {NAME: {OPTION: VALUE or [VALUE, ...], ...}}, ...]`; without the key, `step_time` alone. An option with a
list of values stands for one measure of each.

    measure: [step_time, max_load, {latency: {}}, {pipeline: {schedule: 1f1b_flush, micro_batches: [8, 32]}}]

A measure says what is found of a placement. A placer places once per point and seed, and all measures judge this placement,
a row of results each. Placers see the same problem whatever is measured: to have one look for a small load or a short
latency, give it that objective (`{search: {objective: max_load}}`). Each measure has tables and charts of its own: figures
of two measures do not stand beside each other.

`pipeline` makes a stage of each device of the placement and judges the placement by the time per micro-batch, where the
graph is the work of one micro-batch. A placement that cannot be such a pipeline (`sim/pipeline/README.md`) is `infeasible`,
and `detail` says why.)";

constexpr std::string_view about_rows = R"(
## Results

`baechi run` writes `report.html`, `results.csv` and `results.sqlite` into `--out` (or `results/NAME`). They have the same
bytes for any `-j`, except for `placing_ms`. A row is one placer on one point with one seed, by one measure. Its `status` is

- `ok`;
- `oom`: the step ran out of memory, and `detail` says where;
- `infeasible`: the placer found no placement that fits, or the measure finds no value of it;
- `error`.

`measure` says what is measured, `value` what was found, in the unit that `unit` names; `step_time_us` is the value if a step
time was measured. No placement can beat `lower_bound_us`, which is of the value; it is empty where no bound is known. `gap` is the
share of the value above this bound: 0 is optimal. `weights_bytes` to `copies_bytes` are the parts of `peak_bytes`, on the
device with the highest peak: persistent bytes of forward ops are weights, of backward ops gradients, of update ops optimizer
state. Where a graph has all three at its forward ops, they are all in `weights_bytes`, and the cells of the other two are
empty.

How much of the devices a step uses, by the measure `step_time`, over all devices of the cluster: `busy` is the share of the step in
which lane `compute` runs ops; `flops_utilisation` the time that the flops of all ops take at the peak of their number format, as a
share of the step, and `busy_flops_utilisation` as a share of busy time; `memory_utilisation` the time that `traffic_bytes` take at
full bandwidth, as a share of the step; `compute_bound`, `memory_bound` and `launch_bound` the shares of the ops' time in ops that
their arithmetic, their traffic or their launches decide. Peaks are those of the devices' kind, whatever its `efficiency` and the
devices' `speed`. `throughput` is samples of the graph per second (of one replica, under `data_parallel`), `intensity` flops per byte
of traffic. Cells are empty, never 0, where no op states its work, where a kind of device is in no table, or where the trace
does not say its batch.

The columns of `results.csv` are the following, and after them the swept keys that have no column here:

)";

constexpr std::string_view about_files = R"(.

`results.sqlite` has

- `results`: the same rows;
- `facts`: the numbers that placers report;
- `runs`, `run_axes`: where each run lies in the sweep; `runs.key` is a hash of everything that decides the run;
- `placements.devices`: one byte per op, two if there are more than 256 devices; `graphs.op_names` has the ops' names;
- `pictures`: the steps that the report draws;
- the text of the scenarios and the version of the program.

`report.html` needs no other file. It has tables, charts of the value and of peak memory along any axis, and for some points
(`report.pictures`) what each device did and held over time. `ID.PLACER.trace.json.gz` is the timeline of a run for
ui.perfetto.dev; `report.timelines`, or `baechi run --timelines best|all`, chooses the runs, which are simulated once more for
it. `baechi report DIR --plots` writes the page again, and draws the same as SVG and PDF into `DIR/plots`. It uses gnuplot,
and leaves the scripts there for changes.
)";

constexpr std::string_view large_sweeps = R"(
## Large sweeps

Results depend on the scenario only: `results.*` and `report.html` have the same bytes, except for `placing_ms`, with any
number of threads, processes and machines. Every finished run is appended to `DIR/runs.journal`, which is removed once the
results are written. If a run is interrupted or killed, only unfinished runs are lost; if the machine goes down, also the
last seconds. The same command with `--resume` then runs the rest. It recognises a run by a hash of the program's version,
the graph's content, cluster, engine, profile, placer, seed and measure, not by its place: in a sweep that has grown it runs what is
new. The hash does not cover files that a placer's options name.

One machine: threads.

    baechi run my.yaml --out results/my -j 16
    baechi run my.yaml --out results/my -j 16 --resume     # after Ctrl-C, kill -9, a power cut

Machines with MPI: one process per machine, and threads in each. All processes read the scenario. Rank 0 deals out the runs,
writes the results, and works with the threads it has left. If one process dies, the whole job ends; resume it. MPI is built
in where Open MPI is installed (Debian: `libopenmpi-dev`).

    mpirun --bind-to none --map-by ppr:1:node baechi run my.yaml --out results/my --resume
    mpirun --oversubscribe -n 3 baechi run my.yaml --out results/my -j 1      # to try it on a laptop

A Slurm cluster: the same in a job; or, without MPI, an array of shards, which are independent and are merged afterwards.
`--shard I/N` takes every N-th point in a shuffled order.

    sbatch --nodes 8 scenarios/slurm/mpi.sbatch my.yaml results/my

    sbatch --array 1-16 scenarios/slurm/array.sbatch my.yaml results/my 16
    baechi merge results/my.* --out results/my

Any program that starts programs can run shards, such as GNU parallel:

    parallel baechi run my.yaml --out results/my.{} --shard {}/16 --resume -j 1 --quiet ::: $(seq 16)
    baechi merge results/my.* --out results/my

All machines need the same files under the same paths. The folders of shards may lie anywhere.
)";

}  // namespace

std::string scenario_reference() {
  const Catalogue components = catalogue();
  std::string out(introduction);
  for (const TopKey& k : top_keys()) out += fmt::format("| `{}` | {} |\n", k.key, k.help);
  out += about_sweeps;
  std::vector<BlockKeys> blocks = block_keys();
  std::ranges::stable_sort(blocks, {}, [](const BlockKeys& b) { return b.block; });
  for (const BlockKeys& b : blocks) {
    out += fmt::format("\n## `{}`\n\n{}\n", b.block, sentence(b.help));
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
  out += about_rows;
  for (const Column& column : fixed_columns())
    out += fmt::format("{}`{}`", column.type == ColumnType::id ? "" : ", ", column.name);
  out += about_files;
  out += large_sweeps;
  return out;
}

std::string scenario_schema() {
  const Catalogue components = catalogue();
  const std::vector<BlockKeys> all = block_keys();
  const auto simple = [&](std::string_view name) {
    const BlockKeys& b = block(all, name);
    return object_of(b.keys, b.needed);
  };
  Json properties = Json::object();
  for (const TopKey& k : top_keys()) {
    Json s = Json::object();
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
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Baechi-Sim scenario"},
                       {"type", "object"},
                       {"properties", properties},
                       {"patternProperties", {{"^x-", Json::object()}}},
                       {"additionalProperties", false}};
  return schema.dump(1) + "\n";
}

}  // namespace baechi
