#include "placers/registry.h"

#include <algorithm>

#include "placers/adjust.h"

namespace baechi {

std::unique_ptr<Placer> make_m_etf(Options&);
std::unique_ptr<Placer> make_m_sct(Options&);
std::unique_ptr<Placer> make_single(Options&);
std::unique_ptr<Placer> make_round_robin(Options&);
std::unique_ptr<Placer> make_random(Options&);
std::unique_ptr<Placer> make_least_loaded(Options&);
std::unique_ptr<Placer> make_expert(Options&);
std::unique_ptr<Placer> make_m_topo(Options&);
std::unique_ptr<Placer> make_heft(Options&);
std::unique_ptr<Placer> make_exact_dp(Options&);
std::unique_ptr<Placer> make_linearized_dp(Options&);
std::unique_ptr<Placer> make_mip_max_load(Options&);
std::unique_ptr<Placer> make_greedy_latency(Options&);
std::unique_ptr<Placer> make_mip_latency(Options&);
std::unique_ptr<Placer> make_pipedream(Options&);
std::unique_ptr<Placer> make_local_search(Options&);
std::unique_ptr<Placer> make_scotch(Options&);
std::unique_ptr<Placer> make_metis(Options&);
std::unique_ptr<Placer> make_search(Options&);
std::unique_ptr<Placer> make_exec(Options&);

std::span<const PlacerEntry> placers() {
  constexpr std::size_t any = ~std::size_t{0};
  static constexpr PlacerEntry table[] = {
      {"single", "every op on one device; ignores memory", "the baseline of every paper",
       make_single, any},
      {"round_robin", "ops and groups dealt in turn; ignores memory", "the usual baseline",
       make_round_robin, any},
      {"random", "each op or group on a random device; ignores memory", "the usual baseline",
       make_random, any},
      {"expert", "a placement file, or rules on op names; ignores memory", "whoever wrote it",
       make_expert},
      {"least_loaded", "each op or group where the sum of op times stays least",
       "Graham, SIAM J. Appl. Math. 1969", make_least_loaded, any},
      {"m_topo", "topological order, devices filled in turn", "Baechi, SoCC'20", make_m_topo, any},
      {"m_etf", "earliest task first, within memory", "Baechi, SoCC'20, section 2.2.2", make_m_etf,
       any},
      {"m_sct", "m_etf, devices wait for favourite children", "Baechi, SoCC'20, section 2.2.3",
       make_m_sct, 5'000},
      {"heft", "decreasing upward rank, earliest finish time with insertion",
       "Topcuoglu et al., TPDS 2002", make_heft, any},
      {"exact_dp", "the pipeline of least max_load; counts weights only",
       "Tarnawski et al., NeurIPS 2020, throughput", make_exact_dp},
      {"linearized_dp", "the same along lines of all ops, quickly; counts weights only",
       "Tarnawski et al., NeurIPS 2020, linearization", make_linearized_dp, 5'000},
      {"mip_max_load", "the split of least max_load by integer programming; counts weights only",
       "Tarnawski et al., NeurIPS 2020, throughput", make_mip_max_load},
      {"greedy_latency", "accelerators filled in turn, cores take the rest; counts weights only",
       "Tarnawski et al., NeurIPS 2020, latency", make_greedy_latency, any},
      {"mip_latency", "the placement of least latency by integer programming; counts weights only",
       "Tarnawski et al., NeurIPS 2020, latency", make_mip_latency},
      {"pipedream", "biconnected parts, then as linearized_dp; counts weights only",
       "PipeDream, SOSP 2019; Tarnawski et al., NeurIPS 2020", make_pipedream, 25'000},
      {"local_search", "descents of max_load from random splits; ignores memory",
       "Tarnawski et al., NeurIPS 2020, baselines", make_local_search, 2'000},
      {"scotch", "equal parts, little cut, by Scotch; ignores memory",
       "Pellegrini and Roman, HPCN 1996; Tarnawski et al., NeurIPS 2020", make_scotch, any},
      {"metis", "equal parts, little cut, by METIS; ignores memory",
       "Karypis and Kumar, SIAM J. Sci. Comput. 1998", make_metis, any},
      {"search", "moves and swaps from the best answers of the quick placers, for any objective",
       "simulated annealing: Kirkpatrick et al., Science 1983", make_search},
      {"exec", "exec:PATH, a program of your own in any language", "placers/README.md", make_exec},
  };
  return table;
}

std::unique_ptr<Placer> make(const PlacerEntry& entry, Options& options) {
  return with_adjuster(entry.make(options), options);
}

std::unique_ptr<Placer> make_placer(std::string_view name, Options options,
                                    const std::string& where) {
  constexpr std::string_view program = "exec:";
  if (name.starts_with(program)) {
    options.set("path", {std::string(name.substr(program.size())), where, {}});
    name = "exec";
  }
  const auto it = std::ranges::find(placers(), name, &PlacerEntry::name);
  if (it == placers().end()) {
    std::vector<std::string> known;
    for (const PlacerEntry& entry : placers()) known.emplace_back(entry.name);
    throw InputError(fmt::format("{}no placer '{}'{} (placers: {})", at(where), name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
  }
  auto placer = make(*it, options);
  options.finish();
  return placer;
}

}  // namespace baechi
