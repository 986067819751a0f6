#include "sim/processor_time.h"

#include <ctime>

namespace baechi {
namespace {

thread_local TaskPart* innermost = nullptr;

}  // namespace

std::chrono::nanoseconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

ProcessorTime* TaskPart::task_here() { return innermost == nullptr ? nullptr : innermost->task_; }

TaskPart::TaskPart(ProcessorTime* task)
    : task_(task), outer_(innermost), within_(task == task_here()) {
  if (within_) return;
  if (outer_ != nullptr) outer_->end();
  innermost = this;
  begin();
}

TaskPart::~TaskPart() {
  if (within_) return;
  end();
  innermost = outer_;
  if (outer_ != nullptr) outer_->begin();
}

}  // namespace baechi
