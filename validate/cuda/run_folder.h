/// Files of a run: written aside, flushed pass by pass, and renamed when whole.
#pragma once
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "validate/cuda/clock_rate.h"
#include "validate/cuda/machine.h"
#include "validate/cuda/step.h"
#include "validate/plan/fields.h"

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
  void flush() { out_.flush(); }  ///< Lines told so far outlive the process.
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
  std::set<std::string> told() const;

 private:
  std::string path_;
};

std::string steps_header();
std::string steps_line(const ReplayPlan& plan, int replay, int round, const StepResult& result);

std::string timeline_header();
void write_timeline(TextFile& file, const ReplayPlan& plan, int replay, int round,
                    const Timeline& times);

/// machine.txt
void write_machine(const std::string& folder, const Machine& machine, const ClockRate& clock);

void make_folder(const std::string& folder);  ///< Throws BadInput if it cannot.

}  // namespace baechi::validate::replay
