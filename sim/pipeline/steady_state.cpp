#include "sim/pipeline/steady_state.h"

namespace baechi::pipeline {

bool may_repeat(const ScheduleEntry& entry) {
  return entry.training && entry.flushes && !entry.splits &&
         (entry.layout == Layout::line || entry.layout == Layout::loop);
}

std::size_t group_of(Layout layout, std::size_t stages) {
  return layout == Layout::loop ? stages : 1;
}

namespace {

/// At least `few`, such that the omitted micro-batches are whole periods: of a group, or, if a
/// group is one micro-batch, of 1, 2, 3 or 6.
std::size_t whole_periods(std::size_t few, std::size_t many, std::size_t group) {
  const std::size_t unit = group == 1 ? 6 : group;
  return few < many ? few + (many - few) % unit : many;
}

}  // namespace

std::size_t few_micro_batches(std::size_t many, std::size_t stages, std::size_t group) {
  const std::size_t few = whole_periods(stages + 5 * group, many, group);  // filling, then 5 groups
  return 3 * few > many ? many : few;
}

std::size_t more_micro_batches(std::size_t few, std::size_t many, std::size_t group) {
  return whole_periods(2 * few, many, group);
}

bool repeats(const Schedule& few, const Schedule& many, std::size_t period_of) {
  const std::size_t times = (many.micro_batches - few.micro_batches) / period_of;
  for (std::size_t s = 0; s < few.passes.size(); ++s) {
    const std::vector<Pass>&a = few.passes[s], &b = many.passes[s];
    if ((b.size() - a.size()) % times != 0) return false;
    const std::size_t period = (b.size() - a.size()) / times;
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    const auto last = std::ranges::find_if(
        a, [&](const Pass& p) { return p.micro_batch + period_of >= few.micro_batches; });
    if (last - a.begin() >= static_cast<std::ptrdiff_t>(same) || same < period) return false;
    for (std::size_t i = same; i < b.size(); ++i) {
      const std::size_t repeated = std::min(times, (i - same) / period + 1);
      Pass like = a[i - repeated * period];
      like.micro_batch += static_cast<std::uint32_t>(repeated * period_of);
      if (b[i] != like) return false;
    }
  }
  return true;
}

std::vector<SteadyState::Span> SteadyState::micro_batches() const {
  std::vector<Span> spans(unrolled_.schedule.micro_batches);
  for (const OpId v : ops_.ids()) {
    const std::uint32_t i = unrolled_.micro_batch[v];
    if (i == no_micro_batch) continue;
    spans[i].start = std::min(spans[i].start, ops_[v].start);
    spans[i].end = std::max(spans[i].end, ops_[v].end);
  }
  return spans;
}

std::optional<Repetition> SteadyState::repetition(const Schedule& many) const {
  if (!repeats(unrolled_.schedule, many, group_)) return std::nullopt;
  const std::vector<Span> spans = micro_batches();
  if (std::ranges::all_of(spans.end() - static_cast<std::ptrdiff_t>(group_), spans.end(),
                          [](const Span& s) { return s.start == TimePoint::max(); }))
    return Repetition{};
  const Copies copies = this->copies();
  const std::size_t left_out = many.micro_batches - spans.size();
  for (std::size_t of = group_; 3 * of <= spans.size(); of += group_) {
    if (left_out % of != 0 || !repeats(unrolled_.schedule, many, of)) continue;
    const TimePoint later = spans[spans.size() - of].start;
    const TimePoint from = spans[spans.size() - 2 * of].start;
    if (!is_as_far(spans, copies, from, later, of)) continue;
    return Repetition{from, later - from, static_cast<std::int64_t>(left_out / of)};
  }
  return std::nullopt;
}

bool SteadyState::is_as_far(std::span<const Span> spans, const Copies& copies, TimePoint from,
                            TimePoint later, std::size_t of) const {
  const auto under_way = std::ranges::find_if(spans, [&](const Span& s) { return s.end >= from; });
  const auto first = static_cast<std::size_t>(under_way - spans.begin());
  if (first < of) return false;
  for (std::size_t i = first - of; i + of < copies.size(); ++i)
    for (std::size_t k = 0; k < copies[i].size() && k < copies[i + of].size(); ++k)
      if (!is_as_far(copies[i][k], copies[i + of][k], from, later)) return false;
  return true;
}

SteadyState::Copies SteadyState::copies() const {
  std::size_t origins = 0;
  for (const OpId origin : unrolled_.origin)
    if (origin != no_op) origins = std::max(origins, index(origin) + 1);
  std::vector<std::vector<OpId>> by_origin(origins + 1);  // the last: without an origin
  for (const OpId v : ops_.ids()) {
    if (unrolled_.micro_batch[v] == no_micro_batch || unrolled_.graph.op(v).phase == Phase::update)
      continue;
    by_origin[std::min(index(unrolled_.origin[v]), origins)].push_back(v);
  }
  Copies copies(unrolled_.schedule.micro_batches);
  for (const std::vector<OpId>& of_one : by_origin)
    for (const OpId v : of_one) copies[unrolled_.micro_batch[v]].push_back(v);
  return copies;
}

bool SteadyState::is_as_far(OpId v, OpId copy, TimePoint from, TimePoint later) const {
  const OpGraph& graph = unrolled_.graph;
  if (unrolled_.origin[v] != unrolled_.origin[copy]) return false;
  const auto same = [&](TimePoint a, TimePoint b) { return b - later == a - from; };
  const auto as_far = [&](const Span& a, const Span& b) {
    if (a.start >= from) return b.start >= later;
    if (a.end < from) return b.end < later && b.start < later;
    return b.start < later && same(a.end, b.end);
  };
  if (!as_far(ops_[v], ops_[copy])) return false;
  if (ops_[v].start >= from) {
    const auto a = ready_at(v, from), b = ready_at(copy, later);
    return a.has_value() == b.has_value() && (!a || same(*a, *b) || *a == *b);
  }
  const auto outputs = graph.outputs(v), same_outputs = graph.outputs(copy);
  const std::size_t n = std::min(outputs.size(), same_outputs.size());
  for (std::size_t k = 0; k < n; ++k) {
    const auto at = static_cast<std::ptrdiff_t>(k);
    const Span &a = sent_[outputs[at]], &b = sent_[same_outputs[at]];
    if (!as_far(a, b)) return false;
    const bool waits = a.start >= from && is_sent(outputs[at]);
    if (waits && !same(ops_[v].end, ops_[copy].end)) return false;
  }
  return true;
}

std::optional<TimePoint> SteadyState::ready_at(OpId v, TimePoint now) const {
  const OpGraph& graph = unrolled_.graph;
  const IdVector<OpId, DeviceId>& device = unrolled_.placement.device;
  TimePoint last{};
  for (const EdgeId e : graph.in_edges(v)) {
    const Edge& edge = graph.edge(e);
    const bool stays = device[edge.src] == device[v] || graph.instant(edge.tensor);
    const Span& input = stays ? ops_[edge.src] : sent_[edge.tensor];
    if (input.start >= now || input.end >= now) return std::nullopt;
    last = std::max(last, input.end);
  }
  return last;
}

bool SteadyState::is_sent(TensorId t) const {
  const OpGraph& graph = unrolled_.graph;
  const IdVector<OpId, DeviceId>& device = unrolled_.placement.device;
  return !graph.instant(t) && std::ranges::any_of(graph.readers(t), [&](EdgeId e) {
    return device[graph.edge(e).dst] != device[graph.edge(e).src];
  });
}

Bytes SteadyState::sent_in(const Repetition& repeated) const {
  Bytes sent{};
  for (const auto& [start, t] : sends_)
    if (start >= repeated.from && start < repeated.from + repeated.period)
      sent += unrolled_.graph.tensor(t).size;
  return sent;
}

}  // namespace baechi::pipeline
