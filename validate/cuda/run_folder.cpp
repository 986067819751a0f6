#include "validate/cuda/run_folder.h"

#include <cstdio>
#include <ctime>
#include <filesystem>

namespace baechi::validate::replay {

namespace {

/// PATH.part, or the first of PATH.2.part, PATH.3.part, ... that is not there.
std::string free_name(const std::string& path) {
  std::string name = path + ".part";
  for (int i = 2; std::filesystem::exists(name); ++i)
    name = path + "." + std::to_string(i) + ".part";
  return name;
}

}  // namespace

TextFile::TextFile(std::string path, const std::string& header, bool more)
    : path_(std::move(path)), part_(free_name(path_)), out_(part_, std::ios::binary) {
  const std::ifstream before(path_, std::ios::binary);
  if (more && before)
    out_ << before.rdbuf();
  else
    line(header);
  if (!out_) throw BadInput(part_ + ": cannot be written");
  flush();
}

TextFile::~TextFile() {
  try {
    if (!finished_) finish();
  } catch (const BadInput& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

void Failures::add(const std::string& what, const std::string& why) const {
  std::fprintf(stderr, "failed: %s: %s\n", what.c_str(), why.c_str());
  std::ofstream(path_, std::ios::binary | std::ios::app) << what << ": " << why << '\n';
}

std::set<std::string> Failures::told() const {
  std::set<std::string> names;
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) names.insert(line.substr(0, line.find(": ")));
  return names;
}

void TextFile::finish() {
  finished_ = true;
  out_.close();
  std::error_code error;
  if (out_) std::filesystem::rename(part_, path_, error);
  if (!out_ || error) throw BadInput(path_ + ": cannot be written");
}

std::string steps_header() {
  return "plan,replay,round,mode,step_ns,submit_ns,verdict,peak_bytes";
}

std::string steps_line(const ReplayPlan& plan, int replay, int round, const StepResult& result) {
  const bool ok = result.verdict == StepResult::Verdict::ok;
  std::string text = plan.name + "," + std::to_string(replay) + "," + std::to_string(round) + "," +
                     std::string(to_text(plan.mode)) + ",";
  if (ok) text += std::to_string(span(result.times));
  text += ",";
  if (ok) text += std::to_string(result.submit_ns);
  text += std::string(",") + name_of(result.verdict) + ",";
  if (!ok) return text;
  for (std::size_t i = 0; i < result.peak.size(); ++i)
    text += (i == 0 ? "" : ";") + std::to_string(result.peak[i]);
  return text;
}

std::string timeline_header() {
  return "plan,replay,round,mode,task,start_ns,end_ns";
}

void write_timeline(TextFile& file, const ReplayPlan& plan, int replay, int round,
                    const Timeline& times) {
  const std::string begin = plan.name + "," + std::to_string(replay) + "," + std::to_string(round) +
                            "," + std::string(to_text(plan.mode)) + ",";
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].known())
      file.line(begin + std::to_string(i) + "," + std::to_string(times[i].start) + "," +
                std::to_string(times[i].end));
  }
}

void write_machine(const std::string& folder, const Machine& machine, const ClockRate& clock) {
  TextFile file(folder + "/machine.txt", "baechi-machine 1");
  for (const auto& [key, value] : gpu_facts()) {
    std::string text = key;
    file.line(text.append(" ").append(value));
  }
  for (int d = 0; d < machine.options().devices; ++d) {
    const Device& device = machine.device(d);
    file.line("partition " + std::to_string(d) + " " + std::to_string(device.compute.sms) + " " +
              std::to_string(device.link.sms));
  }
  const bool looked = machine.options().green_contexts;
  file.line(std::string("disjoint ") + (!looked ? "unknown" : machine.disjoint() ? "yes" : "no"));
  file.line("clock_mhz " + std::to_string(clock.lowest()) + " " + std::to_string(clock.highest()));
  file.line("timer_tick_ns " + std::to_string(machine.timer_tick()));
  file.line(std::string("harness ") + REPLAY_COMMIT);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  file.line(std::string("date ") + date);
  file.line(std::string("partitions_by ") +
            (machine.options().green_contexts ? "green contexts" : "capped grids"));
  file.line(std::string("events_by ") +
            (machine.events_of_parts() ? "green contexts" : "primary context"));
  file.line("split " + machine.split().text());
  file.finish();
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BadInput(folder + ": cannot be made: " + error.message());
}

}  // namespace baechi::validate::replay
