#include "placers/exact/replicated_split.h"

namespace baechi::exact {
namespace {

class PipelineProgram {
 public:
  PipelineProgram(const Bundles& bundles, const std::vector<DeviceClass>& classes,
                  const Ideals& ideals, Duration bound, const Replication& replication)
      : bundles_(bundles),
        classes_(classes),
        shapes_(shapes_of(classes, replication)),
        ideals_(ideals),
        bound_(bound.count()),
        chain_(ideals.size() == bundles.size() + 1),
        part_(bundles, classes, shapes_, bound_),
        prefix_(part_),
        traversal_(ideals, bundles.size(), part_) {
    number_states();
    weigh();
  }

  std::optional<BundlePipeline> run() {
    least_.assign(ideals_.size() * num_states_, no_load);
    reached_.assign(ideals_.size(), 0);
    for (const IdealId i : ideals_.ideals()) fill(i);
    const std::int64_t load = least_.back();
    if (load >= bound_) return std::nullopt;
    BundlePipeline pipeline{.load = Duration{load},
                            .device = IdVector<BundleId, DeviceId>(bundles_.size())};
    trace_back(pipeline);
    return pipeline;
  }

 private:
  /// A state is how many devices of each class are used: a number in mixed radix.
  struct Step {
    std::uint32_t state;  // with the devices of the shape
    std::uint32_t from;   // without them
    std::uint32_t shape;
  };

  void number_states() {
    constexpr double most_bytes = 160e6;
    double states = 1.0;
    for (const DeviceClass& cls : classes_) states *= static_cast<double>(cls.devices.size() + 1);
    if (states * static_cast<double>(ideals_.size()) * sizeof(std::int64_t) > most_bytes)
      throw InputError(fmt::format(
          "{} classes of devices (by type, memory and speed) and {} bundles are too many for exact "
          "planning",
          classes_.size(), bundles_.size()));
    num_states_ = static_cast<std::size_t>(states);
    for (std::uint32_t state = 0; state < num_states_; ++state) {
      std::uint32_t stride = 1, rest = state;
      std::vector<std::uint32_t> strides;
      used_.emplace_back();
      for (const DeviceClass& cls : classes_) {
        const auto radix = static_cast<std::uint32_t>(cls.devices.size() + 1);
        used_.back().push_back(rest % radix);
        strides.push_back(stride);
        rest /= radix;
        stride *= radix;
      }
      for (std::uint32_t n = 0; n < shapes_.size(); ++n)
        if (const auto [cls, replicas, exchange] = shapes_[n]; used_.back()[cls] >= replicas)
          steps_.push_back({state, state - strides[cls] * replicas, n});
    }
  }

  /// An upper bound on the work that the devices of a state can do below the bound, as time of each
  /// bundle on its fastest class: in a second, a device does at most as many seconds of it as its
  /// best ratio among the bundles.
  void weigh() {
    IdVector<BundleId, double> fastest(bundles_.size(), 0.0);
    std::vector<double> rate(classes_.size(), 0.0);
    for (const BundleId b : bundles_.bundles()) {
      std::int64_t least = no_load;
      for (std::size_t s = 0; s < classes_.size(); ++s)
        if (const auto time = bundles_.time(b, s)) least = std::min(least, time->count());
      if (least != no_load) fastest[b] = static_cast<double>(least);
      for (std::size_t s = 0; s < classes_.size(); ++s) {
        const auto time = bundles_.time(b, s);
        if (time && least > 0)
          rate[s] = std::max(rate[s], fastest[b] / static_cast<double>(time->count()));
      }
    }
    work_.assign(ideals_.size(), 0.0);
    for (const IdealId i : ideals_.ideals())
      if (!ideals_.lower(i).empty())
        work_[i] = work_[ideals_.lower(i)[0].ideal] + fastest[ideals_.lower(i)[0].bundle];
    // Slightly larger than exact, because sums of doubles are rounded.
    const double most = static_cast<double>(bound_ - 1) * (1.0 + 1e-9) + 1.0;
    for (const auto& used : used_) {
      double rates = 0.0;
      for (std::size_t s = 0; s < classes_.size(); ++s)
        rates += rate[s] * static_cast<double>(classes_[s].devices.size() - used[s]);
      left_.push_back(rates * most);
    }
  }

  std::int64_t* least(IdealId i) { return least_.data() + index(i) * num_states_; }
  bool worthwhile(IdealId i, std::uint32_t state) const {
    return work_[ideals_.all()] - work_[i] <= left_[state];
  }

  void fill(IdealId i) {
    std::int64_t* here = least(i);
    if (i == IdealId{0}) {
      std::fill_n(here, num_states_, 0);
      reached_[i] = 1;
      return;
    }
    if (chain_) prefix_.add(ideals_.lower(i)[0].bundle);
    useful_.clear();
    const double total = work_[ideals_.all()];
    for (const Step& step : steps_) {
      // The used devices can do what all devices can, less what the unused ones can.
      if (worthwhile(i, step.state) &&
          work_[i] <= left_[0] - left_[step.state] + 1e-9 * total + 1.0)
        useful_.push_back(step);
    }
    if (useful_.empty()) return;
    // In a chain, each further part contains this one: ends where none can be better. What one
    // device takes alone is known, and would go on to the beginning.
    if (chain_)
      for (const Step& step : useful_)
        if (const std::int64_t load = prefix_.load(shapes_[step.shape]);
            step.from == 0 && load < bound_)
          here[step.state] = load;
    traversal_.traverse(i, [&](IdealId j) {
      if (reached_[j] != 0) relax(here, least(j));
      return chain_ && std::ranges::all_of(useful_, [&](const Step& step) {
               return step.from == 0 ||
                      part_.compute_load(shapes_[step.shape]) >= std::min(here[step.state], bound_);
             });
    });
    for (const Step& step : steps_)  // leaves a device empty
      here[step.state] = std::min(here[step.state], here[step.from]);
    for (std::uint32_t state = 0; state < num_states_; ++state) {
      if (!worthwhile(i, state)) here[state] = no_load;
      if (here[state] != no_load) reached_[i] = 1;
    }
  }

  void relax(std::int64_t* here, const std::int64_t* before) {
    loads_.resize(shapes_.size());
    bool any = false;
    for (std::size_t n = 0; n < shapes_.size(); ++n) {
      loads_[n] = part_.load(shapes_[n]);
      any = any || loads_[n] < bound_;
    }
    if (!any) return;
    for (const Step& step : useful_) {
      const std::int64_t load = std::max(before[step.from], loads_[step.shape]);
      if (load < here[step.state] && load < bound_) here[step.state] = load;
    }
  }

  /// Assigns devices to the parts: of each class, the first devices take the first part.
  void trace_back(BundlePipeline& pipeline) {
    IdealId i = ideals_.all();
    auto state = static_cast<std::uint32_t>(num_states_ - 1);
    while (i != IdealId{0}) {
      const std::int64_t load = least(i)[state];
      const auto empty = std::ranges::find_if(steps_, [&](const Step& step) {
        return step.state == state && least(i)[step.from] == load;
      });
      if (empty != steps_.end()) {
        state = empty->from;
        continue;
      }
      std::optional<std::pair<Step, IdealId>> found;
      traversal_.traverse(i, [&](IdealId j) {
        for (const Step& step : steps_) {
          if (found || step.state != state || least(j)[step.from] > load ||
              part_.load(shapes_[step.shape]) > load)
            continue;
          found = {step, j};
          const DeviceShape& shape = shapes_[step.shape];
          const auto end = classes_[shape.cls].devices.begin() + used_[state][shape.cls];
          pipeline.stages.push_back({{end - shape.replicas, end}, Duration{part_.load(shape)}});
          for (const BundleId b : traversal_.taken())
            pipeline.device[b] = pipeline.stages.back().devices.front();
        }
        return found.has_value();
      });
      BAECHI_CHECK(found.has_value(), "no transition to ideal {} at load {}", index(i), load);
      state = found->first.from;
      i = found->second;
    }
    std::ranges::reverse(pipeline.stages);
  }

  const Bundles& bundles_;
  const std::vector<DeviceClass>& classes_;
  std::vector<DeviceShape> shapes_;
  const Ideals& ideals_;
  std::int64_t bound_;
  bool chain_;  // each ideal is inside the next
  PipelinePart part_, prefix_;
  StageTraversal<PipelinePart> traversal_;
  std::size_t num_states_ = 1;
  std::vector<std::vector<std::uint32_t>> used_;  // [states][classes]
  std::vector<Step> steps_;                       // by state
  std::vector<Step> useful_;                      // at the ideal being filled
  std::vector<double> left_;                      // [states], work the unused devices can do
  IdVector<IdealId, double> work_;
  std::vector<std::int64_t> least_;  // [ideals, states]
  IdVector<IdealId, char> reached_;  // whether any state of it is below the bound
  std::vector<std::int64_t> loads_;  // [shapes], of the current part
};

}  // namespace

std::optional<BundlePipeline> best_pipeline(const Bundles& bundles,
                                            const std::vector<DeviceClass>& classes,
                                            const Ideals& ideals, Duration bound,
                                            const Replication& replication) {
  return PipelineProgram(bundles, classes, ideals, bound, replication).run();
}

}  // namespace baechi::exact
