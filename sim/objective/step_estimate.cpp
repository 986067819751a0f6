#include "sim/objective/step_estimate.h"

#include "sim/engine/channels.h"
#include "sim/error.h"

// This file is compiled once per SIMD target; code in HWY_ONCE only once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/objective/step_estimate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace baechi::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t lanes = StepEstimate::lanes;
using Times = hn::CappedTag<std::uint32_t, lanes>;
using Slots = hn::Rebind<std::int32_t, Times>;
using Bytes8 = hn::Rebind<std::uint8_t, Times>;
using Vec = hn::Vec<Times>;

/// A row of a table [rows, lanes] per lane. Usually all lanes have the same row, which is one load
/// instead of a gather.
struct Rows {
  bool same;
  std::size_t row;  // if `same`
  Vec rows;

  hn::Vec<Slots> slots() const {
    const Slots d;
    return hn::Add(hn::ShiftLeft<4>(hn::BitCast(d, rows)), hn::Iota(d, 0));
  }
  Vec load(const std::uint32_t* table) const {
    const Times d;
    return same ? hn::LoadU(d, table + row * lanes) : hn::GatherIndex(d, table, slots());
  }
  void store(Vec values, std::uint32_t* table) const {
    const Times d;
    if (same)
      hn::StoreU(values, d, table + row * lanes);
    else
      hn::ScatterIndex(values, d, table, slots());
  }
  /// (row & mask) + offset in each lane.
  Rows channel(std::uint32_t mask, std::uint32_t offset) const {
    const Times d;
    return {same || mask == 0, (row & mask) + offset,
            hn::Add(hn::And(rows, hn::Set(d, mask)), hn::Set(d, offset))};
  }
};

Rows devices(const std::uint8_t* device) {
  const Bytes8 d;
  const auto narrow = hn::LoadU(d, device);
  return {hn::AllTrue(d, hn::Eq(narrow, hn::Set(d, *device))), *device,
          hn::PromoteTo(Times(), narrow)};
}

/// Simulates one vector of lanes, from `first` on.
class Lanes {
 public:
  Lanes(const StepEstimate::Pass& pass, std::size_t first)
      : pass_(pass),
        first_(first),
        free_at_(pass.free_at + first),
        channel_(pass.channel + first),
        sent_(pass.sent + first) {}

  void run() {
    const Times d;
    Vec last = hn::Zero(d);
    for (const OpId v : pass_.order) {
      const StepEstimate::Op *op = &pass_.ops[index(v)], *next = op + 1;
      const Rows device = devices_of(index(v));
      Vec start = device.load(free_at_);
      for (std::uint32_t i = op->first_input; i < next->first_input; ++i)
        start = hn::Max(start, hn::LoadU(d, there(i)));
      const Vec end = hn::Add(start, hn::Set(d, op->compute));
      device.store(end, free_at_);
      last = hn::Max(last, end);
      for (std::uint32_t t = op->first_output; t < next->first_output; ++t) send(t, device, end);
    }
    hn::StoreU(last, d, pass_.last + first_);
  }

 private:
  Rows devices_of(std::size_t op) const { return devices(pass_.device + op * lanes + first_); }
  std::uint32_t* there(std::uint32_t input) const { return pass_.there + input * lanes + first_; }

  void send(std::uint32_t t, const Rows& src, Vec end) {
    const Times d;
    const StepEstimate::Tensor *tensor = &pass_.tensors[t], *next = tensor + 1;
    const bool shared = pass_.cached && next->first_reader - tensor->first_reader > 1;
    bool sent = false;
    for (std::uint32_t r = tensor->first_reader; r < next->first_reader; ++r) {
      const auto [reader, input] = pass_.readers[r];
      const Rows dst = devices_of(reader);
      const auto far = hn::Ne(src.rows, dst.rows);
      if (tensor->instant || hn::AllFalse(d, far)) {
        hn::StoreU(end, d, there(input));
        continue;
      }
      if (shared && !sent) forget(src, end);
      sent = true;
      hn::StoreU(copy(*tensor, src, dst, end, shared), d, there(input));
    }
  }

  /// Resets sent_ for the next tensor.
  void forget(const Rows& src, Vec end) {
    const Times d;
    for (std::uint32_t k = 0; k < pass_.num_devices; ++k)
      hn::StoreU(hn::Zero(d), d, sent_ + k * lanes);
    src.store(end, sent_);
  }

  /// The time at which `dst` has the tensor.
  Vec copy(const StepEstimate::Tensor& tensor, const Rows& src, const Rows& dst, Vec end,
           bool shared) {
    const Times d;
    auto now = hn::Ne(src.rows, dst.rows);
    Vec known = end;
    if (shared) {
      known = dst.load(sent_);
      now = hn::And(now, hn::Eq(known, hn::Zero(d)));
    }
    const Vec time = hn::Set(d, tensor.transfer);
    Vec arrival{};
    if (pass_.limited) {
      const Rows out = src.channel(pass_.channel_mask, 0);
      const Rows in = dst.channel(pass_.channel_mask, pass_.receiving);
      const Vec out_free = out.load(channel_), in_free = in.load(channel_);
      arrival = hn::Add(hn::Max(end, hn::Max(out_free, in_free)), time);
      out.store(hn::IfThenElse(now, arrival, out_free), channel_);
      in.store(hn::IfThenElse(now, arrival, in_free), channel_);
    } else {
      arrival = hn::Add(end, time);
    }
    arrival = hn::IfThenElse(now, arrival, known);
    if (shared) dst.store(arrival, sent_);
    return arrival;
  }

  const StepEstimate::Pass& pass_;
  std::size_t first_;
  std::uint32_t *free_at_, *channel_, *sent_;
};

void run_pass(const StepEstimate::Pass& pass) {
  for (std::size_t first = 0; first < lanes; first += hn::Lanes(Times())) Lanes(pass, first).run();
}

}  // namespace baechi::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baechi {

HWY_EXPORT(run_pass);

bool StepEstimate::suits(const Problem& problem) {
  const auto& [graph, cluster, costs, engine] = problem;
  return graph.plain() && cluster.num_nodes() < 2 && cluster.num_devices() <= 128 &&
         (cluster.num_devices() < 2 || costs.uniform_transfers()) &&
         std::ranges::all_of(
             cluster.devices(), [&](DeviceId d) { return costs.same_compute(DeviceId{0}, d); });
}

StepEstimate::StepEstimate(const Problem& problem)
    : num_devices_(problem.cluster.num_devices()), engine_(problem.engine) {
  const auto& [graph, cluster, costs, engine] = problem;
  if (!suits(problem))
    throw InputError(
        "estimates of many placements at once need at most 128 devices, all the same and in one "
        "node, and one lane");

  const auto transfer = [&](TensorId t) {
    if (num_devices_ < 2 || graph.instant(t)) return Duration::zero();
    return costs.transfer(t, DeviceId{0}, DeviceId{1});
  };
  std::int64_t all = 0, most = 0;  // ns; roundings up
  for (const OpId v : graph.ops()) all += costs.compute(v, DeviceId{0}).count();
  for (const TensorId t : graph.tensors()) {
    const auto copies = static_cast<std::int64_t>(std::min(
        graph.readers(t).size(), engine.cache_tensors ? num_devices_ - 1 : graph.num_edges()));
    all += copies * transfer(t).count();
    most += copies;
  }
  most += static_cast<std::int64_t>(graph.num_ops());
  while (all / unit().count() + most >= std::int64_t{1} << 31) ++shift_;
  const auto units = [&](Duration time) {
    return static_cast<std::uint32_t>((time.count() + unit().count() - 1) >> shift_);
  };

  std::uint32_t inputs = 0, reads = 0;
  readers_.resize(graph.num_edges());
  for (const OpId v : graph.ops()) {
    ops_.push_back({units(costs.compute(v, DeviceId{0})), inputs,
                    static_cast<std::uint32_t>(tensors_.size())});
    for (const EdgeId e : graph.in_edges(v))
      readers_[index(e)] = {static_cast<std::uint32_t>(index(v)), inputs++};
    for (const TensorId t : graph.outputs(v)) {
      tensors_.push_back({units(transfer(t)), reads, graph.instant(t)});
      reads += static_cast<std::uint32_t>(graph.readers(t).size());
    }
  }
  ops_.push_back({0, inputs, static_cast<std::uint32_t>(tensors_.size())});
  tensors_.push_back({0, reads, false});
  device_.assign(graph.num_ops() * lanes, 0);
  there_.resize(graph.num_edges() * lanes);
  free_at_.resize(num_devices_ * lanes);
  channel_.resize(2 * num_devices_ * lanes);
  sent_.resize(num_devices_ * lanes);
}

void StepEstimate::place(std::size_t lane, const Placement& placement) {
  for (const OpId v : placement.device.ids()) move(lane, v, placement.device[v]);
}

StepEstimate::Times StepEstimate::run(std::span<const OpId> order) {
  const ChannelMap channels(engine_.transfers, num_devices_);
  std::array<std::uint32_t, lanes> last{};
  std::ranges::fill(free_at_, 0U);
  std::ranges::fill(channel_, 0U);
  HWY_DYNAMIC_DISPATCH(run_pass)
  ({.order = order,
    .ops = ops_,
    .tensors = tensors_,
    .readers = readers_,
    .num_devices = static_cast<std::uint32_t>(num_devices_),
    .cached = engine_.cache_tensors,
    .limited = channels.limited(),
    .channel_mask = engine_.transfers == Transfers::shared ? 0U : ~0U,
    .receiving =
        channels.limited() ? static_cast<std::uint32_t>(channels.receiving(DeviceId{0})) : 0U,
    .device = device_.data(),
    .there = there_.data(),
    .free_at = free_at_.data(),
    .channel = channel_.data(),
    .sent = sent_.data(),
    .last = last.data()});
  Times times{};
  for (std::size_t lane = 0; lane < lanes; ++lane) times[lane] = last[lane] * unit();
  return times;
}

}  // namespace baechi
#endif
