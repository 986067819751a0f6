/// The files of a validation run as a harness writes them: see validate/FORMATS.md.
#pragma once
#include <fmt/ranges.h>

#include "validate/run_files.h"

namespace baechi::validate {

inline std::string machine_text(const Machine& m) {
  std::string out = fmt::format("baechi-machine 1\ngpu {}\ndriver {}\ncuda {}\nsms {}\n", m.gpu,
                                m.driver, m.cuda, m.sms);
  for (std::size_t d = 0; d < m.partitions.size(); ++d)
    out += fmt::format("partition {} {} {}\n", d, m.partitions[d].compute, m.partitions[d].link);
  out +=
      fmt::format("disjoint {}\nclock_mhz {} {}\ntimer_tick_ns {}\nharness {}\ndate {}\n",
                  m.disjoint, m.clock_mhz[0], m.clock_mhz[1], m.timer_tick_ns, m.harness, m.date);
  for (const auto& [key, value] : m.more) out += fmt::format("{} {}\n", key, value);
  return out;
}

inline std::string measurements_csv(const std::vector<Measurement>& rows) {
  std::string out = std::string(Measurement::header()) + "\n";
  for (const Measurement& m : rows)
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", m.what, m.mode, m.way, m.subject, m.args,
                       m.against, m.count, m.round, m.value);
  return out;
}

inline std::string steps_csv(const std::vector<StepRow>& rows) {
  const auto ns = [](std::optional<Duration> time) {
    return time ? fmt::format("{}", time->count()) : std::string();
  };
  std::string out = "plan,replay,round,mode,step_ns,submit_ns,verdict,peak_bytes\n";
  for (const StepRow& r : rows)
    out += fmt::format("{},{},{},{},{},{},{},{}\n", r.plan, r.replay, r.round, r.mode, ns(r.step),
                       ns(r.submit), to_text(r.verdict),
                       fmt::join(r.peaks | std::views::transform(&Bytes::count), ";"));
  return out;
}

inline std::string timeline_csv(const std::vector<TaskTimes>& replays) {
  std::string out = "plan,replay,round,mode,task,start_ns,end_ns\n";
  for (const TaskTimes& r : replays)
    for (const auto& row : r.rows)
      out += fmt::format("{},{},{},{},{},{},{}\n", r.plan, r.replay, r.round, r.mode, row.task,
                         row.start.count(), row.end.count());
  return out;
}

}  // namespace baechi::validate
