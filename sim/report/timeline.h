/// The timeline of one step, and its export for Perfetto and chrome://tracing.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "sim/engine/simulation.h"
#include "sim/report/path_part.h"

namespace baechi {

/// Records the engine's calls in their order. Use one per call of simulate().
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

struct Span {
  TimePoint start{}, end{};
};

/// Interval colouring: the lowest lane in which each span overlaps no earlier one, in the order of
/// (start, end, position). Half-open intervals. [spans.size()]
std::vector<std::size_t> lanes(const std::vector<Span>& spans);

/// The timeline as Chrome trace events, gzipped if `path` ends in ".gz". Each device is a process
/// with a track for each lane of the graph, send and receive (more of them where slices overlap)
/// and memory by kind; a transfer is on its sender's and on its receiver's track. An op of a
/// colocation group has the group's name and colour (`cname`). Each device has a counter of its
/// memory limit. Flow arrows go from a tensor's producer to its transfer, on both tracks, and to
/// the first reader after it. `path`, if not empty, is a process of its own. `result` has the OOM.
/// The file is replaced atomically. Throws InputError if it cannot be written.
void write_perfetto(const std::string& file, const Problem& problem, const Timeline& timeline,
                    const StepResult& result, std::span<const PathPart> path = {});

}  // namespace baechi
