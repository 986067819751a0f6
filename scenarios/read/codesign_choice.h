/// The values of a scenario's `codesign` section.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/accelerator/accelerator.h"
#include "sim/names.h"

namespace baechi {

/// The planner that divides a training step among the accelerators.
enum class CodesignPlanner : std::uint8_t { data_pipeline_tensor, piper, max_load };
constexpr auto names_of(CodesignPlanner) {
  return std::to_array<Named<CodesignPlanner>>(
      {{CodesignPlanner::data_pipeline_tensor, "data_pipeline_tensor",
        "equal stages, 1F1B with a flush, as in 'baechi plan'"},
       {CodesignPlanner::piper, "piper", "the placer piper: stages of any size, steady state"},
       {CodesignPlanner::max_load, "max_load",
        "the same without replicas and tensor parallelism: a pipeline of the least largest load"}});
}

/// The order in which architectures are visited.
enum class CodesignOrder : std::uint8_t { area, bound };
constexpr auto names_of(CodesignOrder) {
  return std::to_array<Named<CodesignOrder>>(
      {{CodesignOrder::area, "area", "by decreasing area, until `patience` in a row gain nothing"},
       {CodesignOrder::bound, "bound",
        "by a lower bound of the step, until no bound is below the best: the optimum"}});
}

/// The values of each parameter; every combination is an architecture.
struct DesignSpace {
  std::vector<std::int64_t> tensor_cores, vector_cores, width, depth;
  std::vector<Bytes> buffer;
};

struct CodesignChoice {
  std::string areas;  ///< path of the table of areas
  std::string where;  ///< of the section, for messages
  DesignSpace space;
  std::optional<Accelerator> reference;  ///< visited first; the result is compared with it
  std::optional<double> area;            ///< um2; nothing: the reference's
  double least_area = 0.0;               ///< as a fraction of `area`
  CodesignOrder order{};
  std::int64_t patience = 5;  ///< 0: all are visited
  CodesignPlanner planner{};
  std::int64_t batch = 1;  ///< samples of a step
  std::vector<std::int64_t> micro_batch{1}, tensor{1};
  AcceleratorRates rates{};
};

}  // namespace baechi
