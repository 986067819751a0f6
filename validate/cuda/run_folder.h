/// Files of a run: written aside, flushed pass by pass, and renamed when whole.
#pragma once
#include <fstream>
#include <set>

#include "validate/cuda/step.h"

namespace baechi::validate::replay {

class TextFile {
 public:
  /// Begins with `header`; with `more`, with the contents of the file at `path`, if there is one.
  /// An unfinished file of an earlier process is never written over: it is PATH.part, the next
  /// PATH.2.part. Throws BadInput if it cannot be written.
  TextFile(std::string path, const std::string& header, bool more = false);
  ~TextFile();  ///< Also after an error the lines are whole: the file gets its name.
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  void line(const std::string& text) { out_ << text << '\n'; }
  void flush() { out_.flush(); }  ///< Lines written so far outlive the process.
  void finish();                  ///< Throws BadInput if not all could be written.

 private:
  std::string path_, part_;
  std::ofstream out_;
  bool finished_ = false;
};

/// The failures in a folder, a line each: the names of failed plans and benchmarks, which a later
/// process with --more leaves out, and the reasons why processes ended.
class Failures {
 public:
  explicit Failures(const std::string& folder) : path_(folder + "/failed.txt") {}
  void add(const std::string& what, const std::string& why) const;
  std::set<std::string> names() const;

 private:
  std::string path_;
};

std::string steps_header();
std::string steps_line(const ReplayPlan& plan, int replay, int round, const StepResult& result);

std::string timeline_header();
void write_timeline(TextFile& file, const ReplayPlan& plan, int replay, int round,
                    const Timeline& times);

void write_machine(const std::string& folder, const Machine& machine, const ClockRate& clock);

void make_folder(const std::string& folder);  ///< Throws BadInput if it cannot.

struct ReplayOptions {
  std::string folder;
  int devices = 4;       ///< into how many the GPU is cut; more if a plan has more
  int warm_up = 5;       ///< passes over all plans that are not recorded
  int repeats = 30;      ///< timed passes per round, each in another random order
  int rounds = 2;        ///< differences between rounds are noise
  int timelines = 3;     ///< replays of each plan whose tasks' times are written
  double seconds = 240;  ///< no pass begins later than this
  std::uint64_t seed = 1;
  bool green_contexts = true;
  bool more = false;  ///< adds to the folder's files, and leaves out earlier failures
};

/// Exit code: 1 if a replay failed (out of memory is no failure). Throws Skip if there is no usable
/// GPU, GpuLost if it is lost underway. The files then have all finished replays.
int replay_plans(const std::vector<ReplayPlan>& plans, const ReplayOptions& options);

}  // namespace baechi::validate::replay
