/// Who did what when in one step, and the same as a file that Perfetto and chrome://tracing open.
#pragma once
#include <string>
#include <vector>

#include "sim/engine/simulation.h"

namespace baechi {

/// Records a step as the engine tells it, in its order. One per call of simulate().
class Timeline final : public StepObserver {
 public:
  struct OpSlice {
    OpId op{};
    DeviceId device{};
    TimePoint start{}, end{};
  };
  struct TransferSlice {
    TensorId tensor{};
    DeviceId src{}, dst{};
    TimePoint start{}, end{};
  };
  struct MemorySample {
    DeviceId device{};
    TimePoint at{};
    MemoryUse use{};  ///< from `at` on
  };

  void on_op(OpId op, DeviceId device, TimePoint start, TimePoint end) override {
    ops_.push_back({op, device, start, end});
  }
  void on_transfer(TensorId tensor, DeviceId src, DeviceId dst, TimePoint start,
                   TimePoint end) override {
    transfers_.push_back({tensor, src, dst, start, end});
  }
  void on_memory(DeviceId device, const MemoryUse& use, TimePoint at) override {
    memory_.push_back({device, at, use});
  }

  const std::vector<OpSlice>& ops() const { return ops_; }
  const std::vector<TransferSlice>& transfers() const { return transfers_; }
  const std::vector<MemorySample>& memory() const { return memory_; }

 private:
  std::vector<OpSlice> ops_;
  std::vector<TransferSlice> transfers_;
  std::vector<MemorySample> memory_;
};

/// A lane for each of `spans`, the lowest in which it overlaps none before it; the spans are taken
/// in the order of (start, end, position). Touching is not overlapping. [spans.size()]
struct Span {
  TimePoint start{}, end{};
};
std::vector<std::size_t> lanes(const std::vector<Span>& spans);

/// The timeline as Chrome trace events, gzipped if `path` ends in ".gz". Each device is a process
/// with the tracks compute, send and receive (more lanes of them where slices overlap) and memory
/// by kind; a transfer is on its sender's and on its receiver's track. Ops of a colocation group
/// name it and have a colour (`cname`) that goes with it. `result` says whether and when memory ran
/// out. Written aside and renamed. Throws InputError if there can be no such file,
/// std::runtime_error if it cannot be written to the end.
void write_perfetto(const std::string& path, const Problem& problem, const Timeline& timeline,
                    const StepResult& result);

}  // namespace baechi
