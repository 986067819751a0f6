/// The placers whose answers a search begins with.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "placers/placer.h"
#include "sim/objective/objective.h"
#include "sim/options.h"

namespace baechi {

/// An answer and its worth.
struct Candidate {
  std::string placer;
  Placement placement;
  Score score;
};

class Portfolio {
 public:
  /// Reads the options `portfolio` and `start`. By default all quick placers of the registry, and
  /// if the objective is max_load also exact_dp, as long as it is quick.
  Portfolio(Options& options, std::string_view objective);

  /// All members' answers, in parallel, the best first; ties: in the members' order. Members that
  /// find the problem infeasible are left out.
  std::vector<Candidate> ask(const Problem& problem, const Objective& objective,
                             std::uint64_t seed) const;

 private:
  struct Member {
    std::string name;
    std::unique_ptr<Placer> placer;
  };
  void add(Options& options, const Options::Value& choice);

  std::vector<Member> members_;
};

}  // namespace baechi
