#include "sim/pipeline/steady_state.h"

#include <algorithm>
#include <span>

namespace baechi::pipeline {

bool may_repeat(const ScheduleEntry& entry) {
  return entry.training && entry.flushes && !entry.splits &&
         (entry.layout == Layout::line || entry.layout == Layout::loop);
}

std::size_t group_of(Layout layout, std::size_t stages) {
  return layout == Layout::loop ? stages : 1;
}

namespace {

/// At least `few`, and so many left out that they are whole periods: of a group, or, where a group
/// is one micro-batch, of 1, 2, 3, 4 or 6.
std::size_t whole_periods(std::size_t few, std::size_t many, std::size_t group) {
  const std::size_t unit = group == 1 ? 12 : group;
  return few < many ? few + (many - few) % unit : many;
}

}  // namespace

std::size_t few_micro_batches(std::size_t many, std::size_t stages, std::size_t group) {
  return whole_periods(2 * stages + 4 * group, many, group);  // the stages fill, and settle
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
  if (!std::ranges::is_sorted(spans, {}, &Span::start) ||
      !std::ranges::is_sorted(spans, {}, &Span::end))
    return std::nullopt;
  for (std::size_t of = group_; 3 * of <= spans.size(); of += group_)
    if (const auto found = repetition(many, spans, of)) return found;
  return std::nullopt;
}

std::optional<Repetition> SteadyState::repetition(const Schedule& many, std::span<const Span> spans,
                                                  std::size_t of) const {
  const std::size_t left_out = many.micro_batches - spans.size();
  if (left_out % of != 0 || !repeats(unrolled_.schedule, many, of)) return std::nullopt;
  const std::size_t next = spans.size() - 2 * of;  // begins at the first moment
  const Repetition found{.from = spans[next].start,
                         .period = spans[next + of].start - spans[next].start,
                         .times = static_cast<std::int64_t>(left_out / of)};
  const auto under_way = std::ranges::upper_bound(spans, found.from, {}, &Span::end);
  const auto first = static_cast<std::size_t>(under_way - spans.begin());
  if (first < of) return std::nullopt;
  const std::vector<std::vector<OpId>> copies = copies_of(first - of, next + of);
  for (std::size_t i = 0; i + of < copies.size(); ++i)
    if (!are_as_far(copies[i], copies[i + of], found)) return std::nullopt;
  return found;
}

std::vector<std::vector<OpId>> SteadyState::copies_of(std::size_t first, std::size_t end) const {
  std::vector<std::vector<OpId>> copies(end - first);
  for (const OpId v : ops_.ids()) {
    const std::uint32_t i = unrolled_.micro_batch[v];
    if (i == no_micro_batch || i < first || i >= end || unrolled_.origin[v] == no_op) continue;
    copies[i - first].push_back(v);
  }
  for (std::vector<OpId>& of_one : copies)
    std::ranges::stable_sort(of_one, {}, [&](OpId v) { return unrolled_.origin[v]; });
  return copies;
}

bool SteadyState::are_as_far(std::span<const OpId> ops, std::span<const OpId> later,
                             const Repetition& found) const {
  const auto as_far = [&](const Span& a, const Span& b) {
    if (a.start >= found.from) return b.start >= found.from + found.period;
    return b.start - a.start == found.period && b.end - a.end == found.period;
  };
  return std::ranges::equal(ops, later, [&](OpId a, OpId b) {
    if (unrolled_.origin[a] != unrolled_.origin[b] || !as_far(ops_[a], ops_[b])) return false;
    const auto outputs = unrolled_.graph.outputs(a), same = unrolled_.graph.outputs(b);
    for (std::size_t k = 0; k < std::min(outputs.size(), same.size()); ++k) {
      const auto i = static_cast<std::ptrdiff_t>(k);
      if (!as_far(sent_[outputs[i]], sent_[same[i]])) return false;
    }
    return true;
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
