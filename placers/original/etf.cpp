#include <tuple>

#include "placers/original/original.h"

namespace baechi::original {
namespace {

constexpr TimePoint never = ReadyOps::never;
constexpr std::uint32_t not_ready = ~std::uint32_t{0};

}  // namespace

void ReadyOps::add(OpId v) {
  ops_.push_back(v);
  urgent_.push_back(never);
  times_.resize(times_.size() + devices_, never);
  estimates_.resize(estimates_.size() + devices_);
}

void ReadyOps::remove(std::size_t row) {
  const std::size_t last = ops_.size() - 1;
  ops_[row] = ops_[last];
  urgent_[row] = urgent_[last];
  std::copy_n(times_.begin() + static_cast<std::ptrdiff_t>(last * devices_), devices_,
              times_.begin() + static_cast<std::ptrdiff_t>(row * devices_));
  std::copy_n(estimates_.begin() + static_cast<std::ptrdiff_t>(last * devices_), devices_,
              estimates_.begin() + static_cast<std::ptrdiff_t>(row * devices_));
  ops_.pop_back();
  urgent_.pop_back();
  times_.resize(last * devices_);
  estimates_.resize(last * devices_);
}

Scheduler::Scheduler(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                     const PlacerOptions& options, std::span<const std::uint32_t> favourites,
                     Log* log)
    : graph_(graph),
      limits_(limits),
      options_(options),
      log_(log),
      ready_(limits.size()),
      end_(graph.num_ops()),
      favourites_(favourites),
      rank_(graph.num_ops()),
      ready_row_(graph.num_ops(), not_ready),
      unmet_(graph.num_ops()),
      free_(limits.size()),
      last_(limits.size(), no_op) {
  result_.device.assign(graph.num_ops(), no_device);
  for (const OpId v : graph.ops()) {
    unmet_[v] = static_cast<std::uint32_t>(graph.in_edges(v).size());
    if (unmet_[v] == 0) make_ready(v);
  }
}

/// PT4: without numbers of its own an op is ranked by its position in the list of ready ops.
void Scheduler::make_ready(OpId v) {
  const bool numbered = options_.variant == Variant::standard;
  rank_[v] = numbered ? graph_.op(v).topo : became_ready_++;
  ready_row_[v] = static_cast<std::uint32_t>(ready_.size());
  ready_.add(v);
}

PlacerResult Scheduler::run() {
  try {
    for (TimePoint next{}; next != never;) {
      now_ = next;
      step();
      next = never;
      for (const DeviceId d : devices()) next = std::min(next, next_time(d));
      BAECHI_CHECK(next > now_, "time stands still");
    }
    // Q18: the remaining ops fit on no device, and nothing is moved to free memory.
    if (result_.order.size() < graph_.num_ops())
      throw Stop{{.type = "AssertionError",
                  .where = "run",
                  .file = "m_etf.py",
                  .message = fmt::format("# scheduled ops={}, # ops={}", result_.order.size(),
                                         graph_.num_ops())}};
    result_.makespan = now_.time_since_epoch();
  } catch (Stop& stop) {
    result_.failure = std::move(stop.failure);
  }
  result_.used = used();
  result_.peak = peak();
  return std::move(result_);
}

void Scheduler::step() {
  for (const DeviceId d : devices()) {
    if (free_[d] == now_ && last_[d] != no_op) count_finished(d);
    free_[d] = std::max(free_[d], now_);
  }
  update_times();
  while (const auto chosen = choose()) {
    start(*chosen);
    update_times();
  }
}

/// Q11: an op counts as finished only if it ends at the time of a step, so an op that takes no time
/// is missed.
void Scheduler::count_finished(DeviceId d) {
  for (const EdgeId e : graph_.out_edges(last_[d])) {
    const OpId v = graph_.edge(e).dst;
    if (--unmet_[v] == 0) make_ready(v);
  }
}

void Scheduler::update_times() {
  for (std::size_t row = 0; row < ready_.size(); ++row) {
    update_row(row);
    if (result_.device[ready_.op(row)] == no_device) exclude_devices(row);
  }
  moved_channels_ = 0;
}

void Scheduler::update_row(std::size_t row) {
  const OpId v = ready_.op(row);
  TimePoint latest = TimePoint::min();
  for (const DeviceId d : devices()) {
    ReadyOps::Estimate& known = ready_.estimate(row, d);
    if ((known.channels & moved_channels_) != 0) known.channels = ~std::uint64_t{0};
    TimePoint time = never;
    if (may_run_on(v, d) && fits(v, d)) {
      if (known.channels == ~std::uint64_t{0}) known = estimate(v, d);
      time = std::max(known.ready, free_[d]);
      latest = std::max(latest, time);
    }
    ready_.time(row, d) = time;
  }
  ready_.urgent(row) = latest == TimePoint::min() ? never : latest;
}

/// The candidate with the least (time, rank); ties: the first device. PT4 ignores the rank here.
std::optional<Scheduler::Candidate> Scheduler::choose() const {
  std::optional<Candidate> best;
  for (const DeviceId d : devices()) {
    const auto row = candidate(d);
    if (!row) continue;
    const bool ranked = options_.variant == Variant::standard;
    const Candidate c{*row, d, ready_.time(*row, d), ranked ? rank(*row) : 0};
    if (best && (c.time == never) != (best->time == never)) {
      // Q3: the original compares an urgent op without a time with one that has a time.
      const auto kind = [](TimePoint t) { return t == never ? "NoneType" : "int"; };
      throw Stop{{.type = "TypeError",
                  .where = "__lt__",
                  .file = "placer_utils.py",
                  .message = fmt::format("'<' not supported between instances of '{}' and '{}'",
                                         kind(c.time), kind(best->time)),
                  .op = ready_.op(*row)}};
    }
    if (!best || std::tie(c.time, c.rank) < std::tie(best->time, best->rank)) best = c;
  }
  return best;
}

/// The row that `d` would start now. A device is busy; or awake, waiting for a favourite child,
/// when it starts only urgent ops; or free.
std::optional<std::size_t> Scheduler::candidate(DeviceId d) const {
  if (now_ < free_[d]) return std::nullopt;
  if (const auto child = waits_for(d)) {
    const auto urgent = most_urgent(d);
    if (urgent && ready_.urgent(*urgent) <= now_) return urgent;
    return ready_.time(*child, d) <= now_ ? child : std::nullopt;
  }
  const auto row = earliest(d);
  return row && ready_.time(*row, d) <= now_ ? row : std::nullopt;
}

std::optional<std::size_t> Scheduler::earliest(DeviceId d) const {
  std::optional<std::size_t> best;
  TimePoint best_time = never;
  for (std::size_t row = 0; row < ready_.size(); ++row) {
    const TimePoint time = ready_.time(row, d);
    if (time == never || time > best_time) continue;
    if (best && time == best_time && rank(row) > rank(*best)) continue;
    best = row;
    best_time = time;
  }
  return best;
}

/// Q3: also considers ops that fit on `d` but whose group does not.
std::optional<std::size_t> Scheduler::most_urgent(DeviceId d) const {
  std::optional<std::size_t> best;
  const auto order = [this](std::size_t row) { return std::pair(ready_.urgent(row), rank(row)); };
  for (std::size_t row = 0; row < ready_.size(); ++row) {
    const OpId v = ready_.op(row);
    if (!may_run_on(v, d) || !fits(v, d)) continue;
    if (!best || order(row) < order(*best)) best = row;
  }
  return best;
}

/// The row of the favourite child of the last op on `d`, if it is ready, unplaced, and could start
/// on no other device earlier.
std::optional<std::size_t> Scheduler::waits_for(DeviceId d) const {
  if (favourites_.empty() || last_[d] == no_op) return std::nullopt;
  const OpId child{favourites_[index(last_[d])]};
  if (child == OpId{no_favourite} || result_.device[child] != no_device ||
      ready_row_[child] == not_ready)
    return std::nullopt;
  const std::size_t row = ready_row_[child];
  const TimePoint here = ready_.time(row, d);
  if (here == never) return std::nullopt;
  for (const DeviceId other : devices()) {
    if (ready_.time(row, other) < here) return std::nullopt;
  }
  return row;
}

/// The next time at which `d` may have something to start, if no op is to be started now.
TimePoint Scheduler::next_time(DeviceId d) const {
  if (now_ < free_[d]) return free_[d];
  if (const auto child = waits_for(d)) {
    const auto urgent = most_urgent(d);
    return std::min(ready_.time(*child, d), urgent ? ready_.urgent(*urgent) : never);
  }
  const auto row = earliest(d);
  return row ? ready_.time(*row, d) : never;
}

void Scheduler::start(const Candidate& c) {
  const OpId v = ready_.op(c.row);
  const DeviceId d = c.device;
  const TimePoint inputs = commit(v, d, ready_.estimate(c.row, d).ready);
  const TimePoint begin = std::max(free_[d], inputs);
  end_[v] = free_[d] = begin + graph_.op(v).compute;
  last_[d] = v;
  if (log_ != nullptr) log_->on_op({v, d, inputs, begin, end_[v]});

  ready_row_[v] = not_ready;
  ready_.remove(c.row);
  if (c.row < ready_.size()) ready_row_[ready_.op(c.row)] = static_cast<std::uint32_t>(c.row);
  result_.order.push_back(v);
  started(v, d);
}

}  // namespace baechi::original
