/// The placers whose placements a search starts from.
#pragma once

#include "placers/interface/placer.h"

namespace baechi::search {

struct Candidate {
  std::string placer;  ///< the placer whose algorithm found it
  Placement placement;
  Score score;
  bool extra = false;  ///< of a member that is omitted unless it is best
};

class Portfolio {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads the options `portfolio` and `start`. By default all placers of the registry that are
  /// quick on the graph, m_etf with `fallback`; for max_load and latency also placers made for
  /// these objectives, for step_time `auto`, if its placement is better than all others.
  Portfolio(Options& options, std::string_view objective, bool fallback);

  /// The placements of all members, computed in parallel, the best first; ties: in the members'
  /// order. Omits members that find the problem infeasible, and, except for the first, members that
  /// could only begin after `until`; a member that has begun is not interrupted.
  std::vector<Candidate> run(const Problem& problem, const Objective& objective, std::uint64_t seed,
                             Clock::time_point until = Clock::time_point::max()) const;

 private:
  struct Member {
    std::string name;
    std::unique_ptr<Placer> placer;
    std::size_t most_ops = ~std::size_t{0};  ///< of the largest graph that it is run on
    bool only_if_best = false;               ///< omitted unless better than those before it
  };
  void add(Options& options, const Options::Value& choice);
  void add_quick(std::string_view objective, bool fallback);

  std::vector<Member> members_;
};

}  // namespace baechi::search
