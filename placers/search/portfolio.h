/// A search begins with the answers of these placers.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "placers/interface/placer.h"
#include "sim/objective/objective.h"
#include "sim/options.h"

namespace baechi::search {

/// An answer and its worth.
struct Candidate {
  std::string placer;  ///< whose algorithm gave it
  Placement placement;
  Score score;
};

class Portfolio {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads the options `portfolio` and `start`. By default all placers of the registry that are
  /// quick on the graph, m_etf with `fallback`; for max_load and latency also placers made for
  /// these objectives.
  Portfolio(Options& options, std::string_view objective, bool fallback);

  /// All members' answers, in parallel, the best first; ties: in the members' order. Members that
  /// find the problem infeasible are left out. Members whose turn comes after `until` are left out,
  /// except the first; a member that has begun is not interrupted.
  std::vector<Candidate> ask(const Problem& problem, const Objective& objective, std::uint64_t seed,
                             Clock::time_point until = Clock::time_point::max()) const;

 private:
  struct Member {
    std::string name;
    std::unique_ptr<Placer> placer;
    std::size_t most_ops = ~std::size_t{0};  ///< of a graph that it is asked for
  };
  void add(Options& options, const Options::Value& choice);
  void add_quick(std::string_view objective, bool fallback);

  std::vector<Member> members_;
};

}  // namespace baechi::search
