#include "placers/exact/replicated_split.h"
#include "placers/interface/placer.h"

namespace baechi::exact {
namespace {

/// The pipeline with the least load of its busiest device.
/// Source: Tarnawski et al., NeurIPS 2020, dynamic programming over ideals. Differs: stages may
/// have replicas (`replicate`), as in PipeDream and Piper.
class ExactDp final : public Placer {
 public:
  explicit ExactDp(Options& o)
      : max_ideals_(static_cast<std::size_t>(o.get(
            "max_ideals", std::int64_t{exact_dp_ideals},
            "with more ideals, only linear orders of all ops are searched (as linearized_dp)", 1))),
        replicate_(o.get("replicate", false,
                         "a stage may run on several equal devices, which take its samples in "
                         "turn; the placement has the first device")),
        micro_batches_(o.get("micro_batches", std::int64_t{0},
                             "with replicate: samples between two exchanges of gradients, a "
                             "multiple of the replicas; 0: as many as a stage has replicas",
                             0, 10'000'000)) {
    if (micro_batches_ > 0 && !replicate_)
      o.mistake("micro_batches", "only counts with replicate=true");
    constexpr std::size_t most = 100'000'000;  // an ideal takes a few hundred bytes
    if (max_ideals_ > most) o.mistake("max_ideals", fmt::format("more than {}", most));
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceClass> classes = device_classes(p);
    const Replication replication =
        replicate_ ? Replication::of(p, classes, micro_batches_) : Replication{};
    std::optional<Pipeline> pipeline =
        best_linear_pipeline(p, units, classes, Duration::max(), replication);
    const IdealSearch found = search_ideals(
        p, units, classes, pipeline ? pipeline->load : Duration::max(), max_ideals_, replication);
    Placement result;
    result.facts["linearized_us"] = pipeline ? to_us(pipeline->load) : -1.0;
    if (found.pipeline) pipeline = found.pipeline;
    const bool optimal = found.ideals > 0 && !found.leaves_joined;
    if (!pipeline)
      throw InfeasibleError(fmt::format("exact_dp: {}{}",
                                        why_none_fits(p, units, classes, "pipeline"),
                                        optimal ? "" : ", of those that were searched"));
    result.device = pipeline->device;
    result.facts["max_load_us"] = to_us(pipeline->load);
    result.facts["optimal"] = optimal ? 1.0 : 0.0;
    result.facts["ideals"] = static_cast<double>(found.ideals);
    if (found.ideals == 0)
      result.detail = fmt::format("more than {} ideals: only lines were searched", max_ideals_);
    else if (found.leaves_joined)
      result.detail = "best where leaves of no time stay with their neighbours";
    else
      result.detail = "the best contiguous split";
    if (replicate_) record_stages(*pipeline, micro_batches_, result);
    return result;
  }
  bool replicates() const override { return replicate_; }

 private:
  std::size_t max_ideals_;
  bool replicate_;
  std::int64_t micro_batches_;
};

}  // namespace

std::unique_ptr<Placer> make_exact_dp(Options& o) { return std::make_unique<ExactDp>(o); }

}  // namespace baechi::exact
