#include "sim/engine/batch_estimate.h"

#include <algorithm>

#include "sim/error.h"

// This file is compiled once for each kind of vector; HWY_ONCE marks what is not.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/engine/batch_estimate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace baechi::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void run_pass(const BatchEstimate::Pass& pass) {
  constexpr std::size_t lanes = BatchEstimate::lanes;
  const hn::CappedTag<std::uint32_t, lanes> d;
  const hn::Rebind<std::int32_t, decltype(d)> signed_d;
  const hn::Rebind<std::uint8_t, decltype(d)> narrow;
  const std::size_t step = hn::Lanes(d);
  for (std::size_t first = 0; first < lanes; first += step) {
    const auto lane = hn::Iota(signed_d, static_cast<std::int32_t>(first));
    auto last = hn::Zero(d);
    for (std::size_t v = 0; v + 1 < pass.ops.size(); ++v) {
      const auto device = hn::LoadU(narrow, pass.device + v * lanes + first);
      const auto wide = hn::PromoteTo(d, device);
      const auto slot = hn::Add(hn::ShiftLeft<4>(hn::BitCast(signed_d, wide)), lane);
      auto start = hn::GatherIndex(d, pass.free_at, slot);
      for (std::uint32_t i = pass.ops[v].first_input; i < pass.ops[v + 1].first_input; ++i) {
        const auto [u, transfer] = pass.inputs[i];
        const auto there = hn::LoadU(narrow, pass.device + u * lanes + first);
        const auto end = hn::LoadU(d, pass.end + u * lanes + first);
        const auto far = hn::Ne(hn::PromoteTo(d, there), wide);
        start = hn::Max(start, hn::Add(end, hn::IfThenElseZero(far, hn::Set(d, transfer))));
      }
      const auto end = hn::Add(start, hn::Set(d, pass.ops[v].compute));
      hn::StoreU(end, d, pass.end + v * lanes + first);
      hn::ScatterIndex(end, d, pass.free_at, slot);
      last = hn::Max(last, end);
    }
    hn::StoreU(last, d, pass.last + first);
  }
}

}  // namespace baechi::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baechi {

HWY_EXPORT(run_pass);

BatchEstimate::BatchEstimate(const Problem& problem) {
  const auto& [graph, cluster, costs, engine] = problem;
  const DeviceId first{0};
  bool alike = cluster.num_devices() < 2 || costs.transfers_alike();
  for (const DeviceId d : cluster.devices()) alike = alike && costs.compute_alike(first, d);
  if (!alike || cluster.num_devices() > 256)
    throw InputError("estimates of many placements at once need at most 256 devices, all alike");

  const auto transfer = [&](TensorId t) {
    if (cluster.num_devices() < 2 || graph.instant(t)) return Duration::zero();
    return costs.transfer(t, first, DeviceId{1});
  };
  Duration all{};
  for (const OpId v : graph.ops()) all += costs.compute(v, first);
  for (const TensorId t : graph.tensors()) all += transfer(t);
  const auto room = [&] {
    return all.count() / unit().count() + std::int64_t(graph.num_ops()) +
           std::int64_t(graph.num_tensors());
  };
  while (room() >= std::int64_t{1} << 31) ++shift_;
  const auto units = [&](Duration time) {
    return static_cast<std::uint32_t>((time.count() + unit().count() - 1) >> shift_);
  };
  for (const OpId v : graph.ops()) {
    ops_.push_back({units(costs.compute(v, first)), static_cast<std::uint32_t>(inputs_.size())});
    for (const EdgeId e : graph.in_edges(v))
      inputs_.push_back({static_cast<std::uint32_t>(index(graph.edge(e).src)),
                         units(transfer(graph.edge(e).tensor))});
  }
  ops_.push_back({0, static_cast<std::uint32_t>(inputs_.size())});
  device_.assign(graph.num_ops() * lanes, 0);
  end_.resize(graph.num_ops() * lanes);
  free_at_.resize(cluster.num_devices() * lanes);
}

void BatchEstimate::place(std::size_t lane, const Placement& placement) {
  for (const OpId v : placement.device.ids()) move(lane, v, placement.device[v]);
}

BatchEstimate::Times BatchEstimate::run() {
  std::array<std::uint32_t, lanes> last{};
  std::ranges::fill(free_at_, 0U);
  HWY_DYNAMIC_DISPATCH(run_pass)
  ({.ops = ops_,
    .inputs = inputs_,
    .device = device_.data(),
    .end = end_.data(),
    .free_at = free_at_.data(),
    .last = last.data()});
  Times times{};
  for (std::size_t lane = 0; lane < lanes; ++lane) times[lane] = last[lane] * unit();
  return times;
}

}  // namespace baechi
#endif
