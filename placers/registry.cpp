#include "placers/adjust.h"
#include "placers/feasible.h"
#include "placers/interface/wrapped_placer.h"
#include "placers/offload.h"

namespace baechi {

MakePlacer make_m_etf, make_m_sct, make_single, make_round_robin, make_random, make_least_loaded,
    make_expert, make_m_topo, make_heft, make_linearized_dp, make_greedy_latency, make_piper,
    make_pipedream_2bw, make_auto, make_refine, make_coarsen, make_exec, make_ggml_split, make_fill,
    make_balanced;
namespace exact {
MakePlacer make_exact_dp, make_mip_max_load, make_mip_latency;
}
namespace partition {
MakePlacer make_pipedream, make_local_search, make_scotch, make_metis;
}
namespace search {
MakePlacer make_search;
}

std::span<const PlacerEntry> placers() {
  constexpr std::size_t any = ~std::size_t{0};
  using enum CountedMemory;
  static constexpr PlacerEntry table[] = {
      {.name = "single",
       .summary = "every op on one device",
       .source = "the baseline of every paper",
       .make = make_single,
       .memory = ignored,
       .quick_ops = any},
      {.name = "round_robin",
       .summary = "ops and groups assigned to devices in turn",
       .source = "the usual baseline",
       .make = make_round_robin,
       .memory = ignored,
       .quick_ops = any},
      {.name = "random",
       .summary = "each op or group on a random device",
       .source = "the usual baseline",
       .make = make_random,
       .memory = ignored,
       .quick_ops = any},
      {.name = "expert",
       .summary = "a placement file, or rules on op names",
       .source = "the author of the file or the rules",
       .make = make_expert,
       .memory = ignored,
       .needs = "file, rules, rule_file or default",
       .any_collective = true},
      {.name = "least_loaded",
       .summary = "each op or group on the device with the least sum of op times",
       .source = "Graham, SIAM J. Appl. Math. 1969",
       .make = make_least_loaded,
       .memory = floor,
       .quick_ops = any},
      {.name = "m_topo",
       .summary = "topological order, devices filled in turn",
       .source = "Baechi, SoCC'20",
       .make = make_m_topo,
       .memory = footprints,
       .quick_ops = any},
      {.name = "m_etf",
       .summary = "earliest task first, within memory",
       .source = "Baechi, SoCC'20, section 2.2.2",
       .make = make_m_etf,
       .memory = planned,
       .quick_ops = any},
      {.name = "m_sct",
       .summary = "m_etf, devices wait for favourite children",
       .source = "Baechi, SoCC'20, section 2.2.3",
       .make = make_m_sct,
       .memory = planned,
       .quick_ops = 5'000},
      {.name = "heft",
       .summary = "decreasing upward rank, earliest finish time with insertion",
       .source = "Topcuoglu et al., TPDS 2002",
       .make = make_heft,
       .memory = floor,
       .quick_ops = any},
      {.name = "coarsen",
       .summary = "ops joined along heavy tensors, then earliest finish: for large graphs",
       .source = "Celeritas, Mercury; our own clustering",
       .make = make_coarsen,
       .memory = planned,
       .one_lane = true},
      {.name = "fill",
       .summary = "modules in order, devices filled in turn, as device_map=\"sequential\"",
       .source = "Hugging Face accelerate, infer_auto_device_map",
       .make = make_fill,
       .memory = weights,
       .quick_ops = any,
       .homes = true},
      {.name = "balanced",
       .summary = "the same with equal shares, as device_map=\"auto\"",
       .source = "Hugging Face accelerate, get_balanced_memory",
       .make = make_balanced,
       .memory = weights,
       .quick_ops = any,
       .homes = true},
      {.name = "auto",
       .summary = "the best simulated step of all quick placers and cuts, improved briefly",
       .source = "our own",
       .make = make_auto,
       .memory = planned,
       .fallback = true},
      {.name = "refine",
       .summary = "auto's placement, improved by 16 to 1024 simulated steps",
       .source = "our own; annealing as search",
       .make = make_refine,
       .memory = objective,
       .fallback = true},
      {.name = "exact_dp",
       .summary = "the pipeline of least max_load",
       .source = "Tarnawski et al., NeurIPS 2020, throughput",
       .make = exact::make_exact_dp,
       .memory = weights,
       .one_lane = true},
      {.name = "linearized_dp",
       .summary = "the same along linear orders of all ops: quick",
       .source = "Tarnawski et al., NeurIPS 2020, linearization",
       .make = make_linearized_dp,
       .memory = weights,
       .quick_ops = 5'000,
       .one_lane = true},
      {.name = "mip_max_load",
       .summary = "the split of least max_load by integer programming",
       .source = "Tarnawski et al., NeurIPS 2020, throughput",
       .make = exact::make_mip_max_load,
       .memory = weights,
       .one_lane = true},
      {.name = "greedy_latency",
       .summary = "accelerators filled in turn, cores take the rest",
       .source = "Tarnawski et al., NeurIPS 2020, latency",
       .make = make_greedy_latency,
       .memory = weights,
       .quick_ops = any,
       .one_lane = true},
      {.name = "mip_latency",
       .summary = "the placement of least latency by integer programming",
       .source = "Tarnawski et al., NeurIPS 2020, latency",
       .make = exact::make_mip_latency,
       .memory = weights,
       .one_lane = true},
      {.name = "pipedream",
       .summary = "ops connected by several paths contracted, then as linearized_dp",
       .source = "PipeDream, SOSP 2019; Tarnawski et al., NeurIPS 2020",
       .make = partition::make_pipedream,
       .memory = weights,
       .quick_ops = 25'000,
       .one_lane = true},
      {.name = "piper",
       .summary = "data, tensor and pipeline parallelism with recomputation, over Piper's inputs",
       .source = "Tarnawski, Narayanan, Phanishayee, NeurIPS 2021",
       .make = make_piper,
       .memory = weights,
       .needs = "file",
       .one_lane = true},
      {.name = "pipedream_2bw",
       .summary = "equal stages with equal replication and recomputation, over Piper's inputs",
       .source = "Narayanan et al., ICML 2021, as implemented in Piper's program",
       .make = make_pipedream_2bw,
       .memory = weights,
       .needs = "file",
       .one_lane = true},
      {.name = "local_search",
       .summary = "descents of max_load from random splits",
       .source = "Tarnawski et al., NeurIPS 2020, baselines",
       .make = partition::make_local_search,
       .memory = ignored,
       .quick_ops = 2'000},
      {.name = "scotch",
       .summary = "balanced partition with minimum edge cut, by Scotch",
       .source = "Pellegrini and Roman, HPCN 1996; Tarnawski et al., NeurIPS 2020",
       .make = partition::make_scotch,
       .memory = ignored,
       .quick_ops = any},
      {.name = "metis",
       .summary = "balanced partition with minimum edge cut, by METIS",
       .source = "Karypis and Kumar, SIAM J. Sci. Comput. 1998",
       .make = partition::make_metis,
       .memory = ignored,
       .quick_ops = any},
      {.name = "search",
       .summary =
           "moves and swaps from the best placements of the quick placers, for any objective",
       .source = "simulated annealing: Kirkpatrick et al., Science 1983",
       .make = search::make_search,
       .memory = objective,
       .fallback = true},
      {.name = "ggml_split",
       .summary = "llama.cpp's split: layers in order, by shares of the devices' memory",
       .source = "llama.cpp, src/llama-model.cpp",
       .make = make_ggml_split,
       .memory = ignored},
      {.name = "exec",
       .summary = "exec:PATH, a program of your own in any language",
       .source = "placers/README.md",
       .make = make_exec,
       .memory = own,
       .needs = "path"},
  };
  return table;
}

std::optional<std::string> refusal(const PlacerEntry& entry, const OpGraph& graph) {
  if (graph.plain()) return std::nullopt;
  if (entry.one_lane)
    return fmt::format(
        "{0} cannot place this graph: it has lanes or collectives, but {0} supports only devices "
        "that run one op at a time",
        entry.name);
  if (entry.any_collective) return std::nullopt;
  for (const Collective& c : graph.collectives())
    if (c.members > 1)
      return fmt::format(
          "{} cannot place this graph: the {} members of the {} of '{}' need different devices; "
          "'expert' can place it, by a file or by rules",
          entry.name, c.members, to_text(c.kind), graph.name(c.first));
  return std::nullopt;
}

namespace {

/// A placer that refuses the graphs that its entry does not support.
class Suited final : public WrappedPlacer {
 public:
  Suited(const PlacerEntry& entry, std::unique_ptr<Placer> placer)
      : WrappedPlacer(std::move(placer)), entry_(entry) {}

  Placement place_watched(const Problem& problem, std::uint64_t seed,
                          const Watcher& watcher) const override {
    if (const auto why = refusal(entry_, problem.graph)) throw InputError(*why);
    return placer_->place_watched(problem, seed, watcher);
  }

 private:
  const PlacerEntry& entry_;
};

constexpr std::string_view program = "exec:";

}  // namespace

std::unique_ptr<Placer> make(const PlacerEntry& entry, Options& options) {
  auto placer = with_adjuster(std::make_unique<Suited>(entry, entry.make(options)), options);
  placer = with_fallback(std::move(placer), entry, options);
  return with_offload(std::move(placer), entry, options);
}

const PlacerEntry& placer_entry(std::string_view name, std::string_view where) {
  return find_entry(placers(), "placer", name.starts_with(program) ? "exec" : name, where);
}

std::unique_ptr<Placer> make_placer(std::string_view name, Options options,
                                    const std::string& where) {
  const PlacerEntry& entry = placer_entry(name, where);
  if (name.starts_with(program))
    options.set("path", {std::string(name.substr(program.size())), where, {}});
  auto placer = make(entry, options);
  options.finish();
  return placer;
}

std::unique_ptr<Placer> make_placer(std::string_view name) {
  return make_placer(name, Options(std::string(name)));
}

}  // namespace baechi
