#include <algorithm>
#include <array>

#include "sim/pipeline/schedules.h"

namespace baechi::pipeline {
namespace {

std::size_t one(std::size_t, std::size_t) {
  return 1;
}
std::size_t two(std::size_t, std::size_t) {
  return 2;
}
std::size_t as_in_flight(std::size_t stage, std::size_t stages) {
  return stages - stage;
}

}  // namespace

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
