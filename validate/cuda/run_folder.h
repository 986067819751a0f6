/// Files of a run: written aside and renamed when whole.
#pragma once
#include <fstream>
#include <string>
#include <vector>

#include "validate/cuda/clock_rate.h"
#include "validate/cuda/machine.h"
#include "validate/cuda/step.h"
#include "validate/plan/fields.h"

namespace baechi::validate::replay {

class TextFile {
 public:
  /// Begins with `header`; or, `more`, with what the file at `path` holds, if there is one. Throws
  /// BadInput if it cannot be written.
  TextFile(std::string path, const std::string& header, bool more = false);

  void line(const std::string& text) { out_ << text << '\n'; }
  void finish();  ///< Throws BadInput if not all could be written.

 private:
  std::string path_;
  std::ofstream out_;
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
