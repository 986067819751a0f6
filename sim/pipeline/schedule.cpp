#include "sim/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace baechi::pipeline {
namespace {

constexpr std::string_view letters = "FBWRU";  // by PassKind

bool has_weight_passes(const Schedule& schedule) {
  return std::ranges::any_of(schedule.passes, [](const std::vector<Pass>& passes) {
    return std::ranges::find(passes, PassKind::weights, &Pass::kind) != passes.end();
  });
}

/// Validates a schedule by an untimed execution.
class Checker {
 public:
  Checker(const Schedule& schedule, Layout layout, bool training)
      : schedule_(schedule), layout_(layout), training_(training) {}

  std::optional<std::string> check() {
    if (auto wrong = misplaced()) return wrong;
    if (auto wrong = missing()) return wrong;
    if (auto wrong = stuck()) return wrong;
    return too_many();
  }

 private:
  std::optional<std::string> misplaced() {
    const std::size_t stages = schedule_.passes.size();
    for (std::size_t s = 0; s < stages; ++s) {
      for (const Pass& p : schedule_.passes[s]) {
        if (p.chunk >= schedule_.chunks || p.micro_batch >= schedule_.micro_batches)
          return fmt::format("{} does not exist", to_text(p));
        std::size_t home = home_stage(layout_, p.chunk, stages);
        if (layout_ == Layout::two_way && std::size_t{2} * p.micro_batch >= schedule_.micro_batches)
          home = stages - 1 - home;
        if (home != s) return fmt::format("stage {} runs {}", s, to_text(p));
        if (!stage_of_.emplace(p, s).second) return fmt::format("{} runs twice", to_text(p));
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> missing() const {
    const bool split = has_weight_passes(schedule_);
    for (std::size_t c = 0; c < schedule_.chunks; ++c) {
      for (std::size_t i = 0; i < schedule_.micro_batches; ++i) {
        for (const PassKind kind : {PassKind::forward, PassKind::backward, PassKind::weights}) {
          const bool wanted =
              kind == PassKind::forward || (training_ && (kind == PassKind::backward || split));
          if (stage_of_.contains(pass(kind, c, i)) != wanted)
            return fmt::format("{} is {}", to_text(pass(kind, c, i)),
                               wanted ? "missing" : "too many");
        }
      }
    }
    return std::nullopt;
  }

  /// The passes of other kinds or chunks that `p` waits for.
  std::vector<Pass> inputs(const Pass& p) const {
    const auto other = [&](PassKind kind, std::uint32_t chunk) {
      return Pass{kind, chunk, p.micro_batch};
    };
    switch (p.kind) {
      case PassKind::forward:
        if (p.chunk > 0) return {other(PassKind::forward, p.chunk - 1)};
        return {};
      case PassKind::backward:
        if (p.chunk + 1 < schedule_.chunks)
          return {other(PassKind::forward, p.chunk), other(PassKind::backward, p.chunk + 1)};
        return {other(PassKind::forward, p.chunk)};
      case PassKind::recompute:
        return {other(PassKind::forward, p.chunk)};
      case PassKind::weights:
      case PassKind::update:
        return {other(PassKind::backward, p.chunk)};
    }
    return {};
  }

  std::optional<std::string> stuck() {
    std::vector<std::size_t> next(schedule_.passes.size(), 0);
    std::map<Pass, bool> done;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < next.size(); ++s) {
        const std::vector<Pass>& passes = schedule_.passes[s];
        for (; next[s] < passes.size(); ++next[s]) {
          const std::vector<Pass> waits = inputs(passes[next[s]]);
          if (!std::ranges::all_of(waits, [&](const Pass& p) { return done.contains(p); })) break;
          done[passes[next[s]]] = true;
          moved = true;
        }
      }
    }
    for (std::size_t s = 0; s < next.size(); ++s)
      if (next[s] < schedule_.passes[s].size())
        return fmt::format("stage {} waits for ever with {}", s,
                           to_text(schedule_.passes[s][next[s]]));
    return std::nullopt;
  }

  std::optional<std::string> too_many() const {
    const std::vector<std::size_t> most = most_in_flight(schedule_);
    for (std::size_t s = 0; s < most.size(); ++s)
      if (most[s] > schedule_.in_flight[s])
        return fmt::format("stage {} keeps {} activations, not {}", s, most[s],
                           schedule_.in_flight[s]);
    return std::nullopt;
  }

  const Schedule& schedule_;
  Layout layout_;
  bool training_;
  std::map<Pass, std::size_t> stage_of_;
};

std::size_t one(std::size_t, std::size_t) { return 1; }
std::size_t two(std::size_t, std::size_t) { return 2; }
std::size_t as_in_flight(std::size_t stage, std::size_t stages) { return stages - stage; }

}  // namespace

std::string to_text(const Pass& pass) {
  return fmt::format("{} {} of micro-batch {}", letters[static_cast<std::size_t>(pass.kind)],
                     pass.chunk, pass.micro_batch);
}

std::size_t home_stage(Layout layout, std::size_t chunk, std::size_t stages) {
  switch (layout) {
    case Layout::loop:
      return chunk % stages;
    case Layout::vee:
      return chunk < stages ? chunk : 2 * stages - 1 - chunk;
    case Layout::line:
    case Layout::two_way:
      break;
  }
  return chunk;
}

Schedule with_recompute(Schedule schedule, bool keep_last) {
  for (std::vector<Pass>& passes : schedule.passes) {
    std::vector<Pass> all;
    for (const Pass& p : passes) {
      const bool kept = keep_last && p.micro_batch + 1 == schedule.micro_batches;
      if (p.kind == PassKind::backward && !kept)
        all.push_back({PassKind::recompute, p.chunk, p.micro_batch});
      all.push_back(p);
    }
    passes = std::move(all);
  }
  return schedule;
}

std::vector<std::size_t> most_in_flight(const Schedule& schedule) {
  const PassKind last = has_weight_passes(schedule) ? PassKind::weights : PassKind::backward;
  std::vector<std::size_t> most;
  for (const std::vector<Pass>& passes : schedule.passes) {
    std::size_t now = 0;
    most.push_back(0);
    for (const Pass& p : passes) {
      if (p.kind == PassKind::forward) most.back() = std::max(most.back(), ++now);
      if (p.kind == last) --now;
    }
  }
  return most;
}

std::optional<std::string> mistake_in(const Schedule& schedule, Layout layout, bool training) {
  return Checker(schedule, layout, training).check();
}

Schedule empty_schedule(const Shape& shape, std::size_t chunks) {
  return {.chunks = chunks,
          .micro_batches = shape.micro_batches,
          .passes = std::vector<std::vector<Pass>>(shape.stages),
          .in_flight = std::vector<std::size_t>(shape.stages, 0)};
}

Pass pass(PassKind kind, std::size_t chunk, std::size_t micro_batch) {
  return {kind, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(micro_batch)};
}

void add_updates(Schedule& schedule) {
  for (std::vector<Pass>& passes : schedule.passes) {
    std::map<std::uint32_t, std::uint32_t> last;  // chunk -> micro-batch
    for (const Pass& p : passes) last[p.chunk] = p.micro_batch;
    for (const auto& [chunk, i] : last) passes.push_back({PassKind::update, chunk, i});
  }
}

std::span<const ScheduleEntry> schedules() {
  static constexpr std::array<ScheduleEntry, 10> table{{
      {"inference", "forward passes only, one micro-batch after the other", "", Layout::line, false,
       false, false, one, inference},
      {"gpipe", "all forward passes, then all backward passes, then the update",
       "Huang et al., GPipe, NeurIPS 2019", Layout::line, true, false, true, one, gpipe},
      {"1f1b", "one forward, one backward; an update after each, p - s versions of the weights",
       "Narayanan et al., PipeDream, SOSP 2019", Layout::line, true, false, false, as_in_flight,
       one_forward_one_backward},
      {"1f1b_flush", "one forward, one backward; one update after all, one version",
       "Narayanan et al., PipeDream-Flush, ICML 2021", Layout::line, true, false, true, one,
       flushed_1f1b},
      {"2bw", "one forward, one backward; one update after all that nobody waits for, two versions",
       "Narayanan et al., PipeDream-2BW, ICML 2021", Layout::line, true, false, false, two,
       flushed_1f1b},
      {"interleaved", "1f1b_flush with several chunks on each device: 1/v of the bubble",
       "Narayanan et al., Megatron-LM, SC 2021", Layout::loop, true, false, true, one, interleaved},
      {"zb_h1", "1f1b_flush with delayed weight gradients; no more memory",
       "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024", Layout::line, true, true, true,
       one, zb_h1},
      {"zb_h2", "zb_h1 with more micro-batches in flight, and no bubble if all passes are equal",
       "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024", Layout::line, true, true, true,
       one, zb_h2},
      {"zb_v", "two chunks on each device, there and back: zb_h2's time with zb_h1's memory",
       "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024", Layout::vee, true, true, true, one,
       zb_v},
      {"dualpipe", "half of the micro-batches from either end; each device holds two chunks",
       "DeepSeek-AI, DeepSeek-V3, 2024", Layout::two_way, true, true, true, one, dualpipe},
  }};
  return table;
}

const ScheduleEntry* find_schedule(std::string_view name) {
  const auto it = std::ranges::find(schedules(), name, &ScheduleEntry::name);
  return it == schedules().end() ? nullptr : &*it;
}

}  // namespace baechi::pipeline
