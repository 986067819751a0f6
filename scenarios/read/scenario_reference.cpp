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

/// Whether `component` has the option with the same help; the default may differ.
bool has_option(const Component& component, const Options::Declared& option) {
  return std::ranges::any_of(component.options, [&](const Options::Declared& d) {
    return d.key == option.key && d.help == option.help;
  });
}

/// Options that all components share are listed once, and again where the default differs.
void append_components(std::string& out, std::string_view title, std::string_view use,
                       const std::vector<Component>& all) {
  out += fmt::format("\n## {}\n\n{}\n", title, use);
  Declared shared;
  for (const Options::Declared& option : all.front().options)
    if (all.size() > 1 &&
        std::ranges::all_of(all, [&](const Component& c) { return has_option(c, option); }))
      shared.push_back(option);
  if (!shared.empty()) {
    out += "\nAll have these options; other defaults are listed at the component.\n";
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
  }
}
constexpr std::string_view introduction = R"(# Scenarios

A scenario defines what to run: a graph on a cluster, under an engine, placed by one or more placers. A sweep makes many runs
of it. `baechi run FILE...` runs it. `baechi schema --reference` generates this page, and a test compares them.
`scenario.schema.json` is the same for editors.

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

A quantity is a number and a unit. A path is relative to the file it stands in; a graph's may also begin in the folder of the data
that comes with the program, such as `traces/data/two_towers.trace.json`. In paths and in options `${NAME}` is a
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
- one of these sections as a whole; or
- `placers`, `seeds` or `measure`.

Its value is the list of values that it takes. Every combination is a point. Points are numbered: graphs vary slowest, then
transforms, clusters, engines, placers, seeds and measures. Within a section the axis that is written last varies fastest. In
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

A measure turns a placement into the value of a row. A placer places once per point and seed, and each measure gives a row for
this placement. Placers do not know the measures. To minimise load or latency, give the placer this objective
(`{search: {objective: max_load}}`). Each measure has tables and charts of its own.

`pipeline` makes a stage of each device of the placement. The graph is the work of one micro-batch, and the value is the time
per micro-batch. A placement that cannot run as a pipeline (`sim/pipeline/README.md`) is `infeasible`, and `detail` says why.)";

constexpr std::string_view about_rows = R"(
## Results

`baechi run` writes `report.html`, `results.csv` and `results.sqlite` into `--out` (or `results/NAME`). For any
`-j`, and in each repetition, `results.csv` has the same bytes except for its column `placing_ms`, and so has `results.sqlite`, whose
`checksum` does not cover this column. `report.html` is the same except for times of placing, which it shows. A row is one placer on one point with one seed, by one measure. Its `status` is

- `ok`;
- `oom`: the step ran out of memory, and `detail` says where;
- `infeasible`: the placer found no placement that fits, or the measure finds no value of it;
- `error`.

`measure` says what is measured, `value` what was found, in the unit that `unit` names; `step_time_us` is the value if a step
time was measured. No placement can beat `lower_bound_us`, which is of the value; it is empty where no bound is known. `gap` is the
fraction of the value above this bound: 0 is optimal. `weights_bytes` to `copies_bytes` are the parts of `peak_bytes`, on the
device with the highest peak: persistent bytes of forward ops are weights, of backward ops gradients, of update ops optimizer
state. Where a graph has all three at its forward ops, they are all in `weights_bytes`, and the cells of the other two are
empty.

`placed_by` names the placer whose algorithm found the placement, such as the one chosen by `auto`. `fallback:` before the name says
that the placer found none, and that its option `fallback` did; `all`, `cuts` and `moves` are steps of this search. `point` is a
hash of the graph after its transforms, cluster, engine and profile: rows that have it equal were run on the same, and `baechi
compare` pairs such rows only.

The measure `step_time` also gives the utilisation of all devices of the cluster, as fractions:

- `busy`: time in which lane `compute` runs ops / step;
- `flops_utilisation`: time of all flops at the peak of their dtype / step; `busy_flops_utilisation`: the same / busy time;
- `memory_utilisation`: time of `traffic_bytes` at full bandwidth / step;
- `compute_bound`, `memory_bound`, `launch_bound`: time of ops that arithmetic, traffic or launches decide / time of all ops.

Peaks are those of the device type, without `efficiency` and `speed`. `throughput` is samples of the graph per second (of one replica,
under `data_parallel`; of all batches, under `micro_batches`). `intensity` is flops per byte of traffic. Cells are empty, never 0,
if no op states its work, if a device type is in no table, or if the trace has no batch.

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

Results depend on the scenario only: `results.*` and `report.html` are the same, except for times of placing, with any number of threads, processes and machines. Every finished run is appended to `DIR/runs.journal`, which is removed once the
results are written. If a run is interrupted or killed, only unfinished runs are lost; if the machine goes down, also the
last seconds. The same command with `--resume` then runs the rest. A hash identifies a run: the program's version, the graph's
content, cluster, engine, profile, placer, seed and measure. In a sweep that has grown, only the new runs are made. The hash does not
cover files that a placer's options name.

One machine: threads.

    baechi run my.yaml --out results/my -j 16
    baechi run my.yaml --out results/my -j 16 --resume     # after Ctrl-C, kill -9, a power cut

Machines with MPI: one process per machine, and threads in each. All processes read the scenario. Rank 0 distributes the runs,
writes the results, and works with the threads it has left. If one process dies, the whole job ends; resume it. MPI is built
in where Open MPI is installed (Debian: `libopenmpi-dev`).

    mpirun --bind-to none --map-by ppr:1:node baechi run my.yaml --out results/my --resume
    mpirun --oversubscribe -n 3 baechi run my.yaml --out results/my -j 1      # to try it on a laptop

A site's scheduler: files in `scenarios/jobs` run as they stand. Slurm takes MPI in a job, or an array of shards. `--shard I/N` takes
every N-th point in a shuffled order. `merge` joins the folders. If shards are missing, it names them, writes nothing and ends with exit
code 2. A job that is preempted is queued again, and goes on where it was: all of these files give `--resume`.

    sbatch --nodes 8 scenarios/jobs/mpi.sbatch my.yaml results/my

    sbatch --array 1-16 scenarios/jobs/array.sbatch my.yaml results/my 16
    baechi merge results/my.* --out results/my

| scheduler | file | tried |
| --- | --- | --- |
| Slurm | `array.sbatch`, `mpi.sbatch` | in a Slurm of one node |
| GNU parallel | `parallel.sh` | yes |
| Snakemake | `Snakefile` | yes |
| HyperQueue | `hyperqueue.sh` | with a stand-in for `hq` |
| Kubernetes, Indexed Jobs | `kubernetes.yaml` | its command alone, with `JOB_COMPLETION_INDEX` set |

All machines need the same files under the same paths. The folders of shards may lie anywhere.
)";

}  // namespace

std::string scenario_reference() {
  const Catalogue components = catalogue();
  std::string out(introduction);
  for (const TopKey& k : top_keys()) out += fmt::format("| `{}` | {} |\n", k.key, k.help);
  out += about_sweeps;
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
                    "for an entry of 'baechi list collective_kinds'.",
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

}  // namespace baechi
