#include "scenarios/studies/codesign/design_search.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "sim/error.h"

namespace baechi {
namespace {

constexpr double no_plan = std::numeric_limits<double>::infinity();

/// Designs planned at once; independent of the machine, so that the same are visited everywhere.
constexpr std::size_t at_once = 8;

double total_seconds(const VisitedDesign& v) {
  return v.plan ? v.plan->seconds : no_plan;
}

bool better(const VisitedDesign& a, const VisitedDesign& b) {
  return std::pair(total_seconds(a), a.sized.area) < std::pair(total_seconds(b), b.sized.area);
}

class DesignSearch {
 public:
  DesignSearch(const DesignPlanner& planner, const DesignList& list, const CodesignChoice& choice,
               std::atomic<std::size_t>& done)
      : planner_(planner), list_(list), choice_(choice), done_(done) {}

  DesignAnswer run() && {
    if (list_.reference) {
      visit({.sized = *list_.reference, .plan = planner_.best(list_.reference->design)});
      answer_.reference = 0;
    }
    answer_.designs = list_.designs.size();
    order();
    for (std::size_t begin = 0; begin < order_.size(); begin += at_once)
      if (!visit_some(begin, std::min(begin + at_once, order_.size()))) break;
    if (answer_.visited.empty() || total_seconds(answer_.visited[best_]) == no_plan)
      answer_.best.reset();
    else
      answer_.best = best_;
    answer_.proved = answer_.proved || left_ == 0;
    mark_front();
    return std::move(answer_);
  }

 private:
  void order() {
    for (std::size_t i = 0; i < list_.designs.size(); ++i)
      if (!list_.reference || list_.designs[i].design != list_.reference->design)
        order_.push_back(i);
    left_ = order_.size();
    if (choice_.order == CodesignOrder::area) return;
    least_.assign(list_.designs.size(), 0.0);
    tbb::parallel_for(std::size_t{0}, order_.size(), [&](std::size_t i) {
      least_[order_[i]] = planner_.least_seconds(list_.designs[order_[i]].design);
    });
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return least_[i]; });
  }

  /// False if the search ends before `end`.
  bool visit_some(std::size_t begin, std::size_t end) {
    std::vector<VisitedDesign> some(end - begin);
    tbb::parallel_for(std::size_t{0}, some.size(), [&](std::size_t i) {
      const SizedDesign& sized = list_.designs[order_[begin + i]];
      some[i] = {.sized = sized, .plan = planner_.best(sized.design)};
      ++done_;
    });
    for (std::size_t i = 0; i < some.size(); ++i) {
      const bool bounded = choice_.order == CodesignOrder::bound;
      // Only a larger bound ends the search: an equally fast but smaller design would be better.
      if (bounded && !answer_.visited.empty() &&
          least_[order_[begin + i]] > total_seconds(answer_.visited[best_])) {
        answer_.proved = true;
        return false;
      }
      if (!bounded && choice_.patience > 0 && idle_ >= choice_.patience) return false;
      visit(some[i]);
      --left_;
    }
    return true;
  }

  void visit(const VisitedDesign& v) {
    answer_.visited.push_back(v);
    const std::size_t last = answer_.visited.size() - 1;
    const bool gains = last == 0 || better(answer_.visited[last], answer_.visited[best_]);
    if (gains) best_ = last;
    idle_ = gains ? 0 : idle_ + 1;
  }

  void mark_front() {
    std::vector<std::size_t> by_area(answer_.visited.size());
    std::iota(by_area.begin(), by_area.end(), std::size_t{0});
    std::ranges::stable_sort(by_area, {}, [&](std::size_t i) {
      return std::pair(answer_.visited[i].sized.area, total_seconds(answer_.visited[i]));
    });
    double least = no_plan;
    for (const std::size_t i : by_area) {
      VisitedDesign& v = answer_.visited[i];
      if (total_seconds(v) >= least) continue;
      least = total_seconds(v);
      v.on_front = true;
    }
  }

  const DesignPlanner& planner_;
  const DesignList& list_;
  const CodesignChoice& choice_;
  std::atomic<std::size_t>& done_;
  std::vector<std::size_t> order_;  // of list_.designs
  std::vector<double> least_;       // [designs] lower bounds, if ordered by bounds
  DesignAnswer answer_;
  std::size_t best_ = 0;   // of answer_.visited
  std::size_t left_ = 0;   // not visited yet, of order_
  std::int64_t idle_ = 0;  // visits in a row without gain
};

}  // namespace

DesignList designs_within(const CodesignChoice& choice, const AreaTable& areas) {
  DesignList list;
  if (choice.reference) {
    const auto area = areas.area(*choice.reference);
    if (!area)
      throw InputError(fmt::format("{}codesign.reference: {} has no areas for {}", at(choice.where),
                                   choice.areas, to_text(*choice.reference)));
    list.reference = SizedDesign{*choice.reference, *area};
  }
  if (!choice.area && !list.reference)
    throw InputError(fmt::format("{}codesign: it needs 'area' or 'reference'", at(choice.where)));
  list.limit = choice.area ? *choice.area : list.reference->area;
  const DesignSpace& s = choice.space;
  list.combinations = s.tensor_cores.size() * s.vector_cores.size() * s.width.size() *
                      s.depth.size() * s.buffer.size();
  for (const std::int64_t tensor_cores : s.tensor_cores)
    for (const std::int64_t vector_cores : s.vector_cores)
      for (const std::int64_t width : s.width)
        for (const std::int64_t depth : s.depth)
          for (const Bytes buffer : s.buffer) {
            const Accelerator design{tensor_cores, vector_cores, width, depth, buffer};
            const auto area = areas.area(design);
            if (area && *area <= list.limit * (1.0 + 1e-12) &&
                *area >= choice.least_area * list.limit)
              list.designs.push_back({design, *area});
          }
  if (list.designs.empty())
    throw InputError(
        fmt::format("{}codesign.space: none of its {} architectures has a known area "
                    "from {:.4g} to {:.4g} mm2",
                    at(choice.where), list.combinations, choice.least_area * list.limit / 1e6,
                    list.limit / 1e6));
  std::ranges::sort(list.designs, std::greater<>(),
                    [](const SizedDesign& d) { return std::pair(d.area, d.design); });
  return list;
}

DesignAnswer search_designs(const DesignPlanner& planner, const DesignList& list,
                            const CodesignChoice& choice, std::atomic<std::size_t>& done) {
  return DesignSearch(planner, list, choice, done).run();
}

}  // namespace baechi
