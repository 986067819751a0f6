/// The timeline of one step, parts of its critical path, and its export for Perfetto, for
/// chrome://tracing, and as a picture and a roofline plot on a web page.
#pragma once
#include "sim/cluster/device_model.h"
#include "sim/engine/simulation.h"

namespace baechi {

enum class PathKind : std::uint8_t {
  compute,       ///< an op runs
  transfer,      ///< a tensor is sent; in Transfers::staged its latency, too
  wait_channel,  ///< a tensor is complete, but its transfer cannot start yet
  wait_device,   ///< inputs have arrived, but the device's lane is busy
  collective,    ///< a collective runs
};
constexpr auto names_of(PathKind) {
  return std::to_array<Named<PathKind>>(
      {{PathKind::compute, "compute", "computing"},
       {PathKind::transfer, "transfer", "transferring"},
       {PathKind::wait_channel, "wait_channel", "waiting for a channel"},
       {PathKind::wait_device, "wait_device", "waiting for a device"},
       {PathKind::collective, "collective", "in a collective"}});
}
inline constexpr std::size_t num_path_kinds = 5;

struct PathPart {
  PathKind kind{};
  OpId op{};                         ///< the op or member that runs or waits; else the producer
  std::optional<TensorId> tensor{};  ///< of transfer and wait_channel
  DeviceId device{};                 ///< of the op; else the sender
  DeviceId to{};                     ///< the receiver of `tensor`; else `device`
  OpId behind = no_op;               ///< wait_device: the last op that ran there meanwhile, if any
  TimePoint start{}, end{};
  Duration length() const { return end - start; }
};

/// Records the engine's calls in their order. Use one per call of simulate().
class Timeline : public StepObserver {
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

/// Passes the timeline as Chrome trace events to `sink`, in pieces. Each device is a process
/// with a track for each lane of the graph, send and receive (more of them where slices overlap)
/// and memory by kind; a transfer is on its sender's and on its receiver's track. An op of a
/// colocation group has the group's name and colour (`cname`). Each device has a counter of its
/// memory limit. Flow arrows go from a tensor's producer to its transfer, on both tracks, and to
/// the first reader after it. `path`, if not empty, is a process of its own. `result` has the OOM.
void write_perfetto(const std::function<void(std::string_view)>& sink, const Problem& problem,
                    const Timeline& timeline, const StepResult& result,
                    std::span<const PathPart> path = {});

/// Limits of a picture, summed over the devices.
struct PictureSize {
  std::size_t computing = 2400;  ///< slices of ops
  std::size_t transfers = 1200;  ///< slices of sends, and as many of receives
  std::size_t memory = 1200;     ///< samples
  std::size_t path = 600;        ///< parts of the critical path
};

/// JSON on one line. Times are whole `quantum` nanoseconds, sizes whole `unit` bytes:
///   {"ns": length of the step, "quantum": ns, "unit": bytes,
///    "oom": null or {"device": number, "ns": when, "op": name, "needed": bytes, "free": bytes},
///    "path": [start, length, op, parts, kind, device, ...] (the critical path; kind: PathKind),
///    "devices": [{"name", "limit": bytes, "busy": ns, "peak": bytes,
///      "compute": [start, length, op, ops, phase, group, ...],
///      "send": [start, length, producer, tensors, to, ...], "receive": [..., from, ...],
///      "memory": [at, weights, outputs, copies, workspace, ...]}]}
/// and "roofline" next to "devices", unless `roofline` is "" (sim/report/timeline.h).
/// Each start and each `at` is relative to the previous one. A slice is one op or transfer, or
/// several too close to be distinguished: then op, phase and group (or producer and peer) are those
/// of the longest one. Phase: 0 forward, 1 backward, 2 update; group 0: none.
/// A sample of memory holds until the next one; the samples include the peak of every device.
std::string picture(const Problem& problem, const Timeline& timeline, const StepResult& result,
                    std::span<const PathPart> path = {}, const PictureSize& size = {},
                    std::string_view roofline = {});

/// JSON on one line, "" if no op that ran states flops:
///   {"roofs": [{"device": type, "bandwidth": bytes/s, "peaks": {dtype: flop/s}}],
///    "ops": [[name, flops, traffic, ns, bound], ...], "layers": [[module, flops, traffic, ns]]}
/// Roofs: the device types that ran ops, with the dtypes of the ops.
/// Ops: the `most` longest ones among those with flops and traffic; ties by id. Bound: 0
/// compute, 1 memory, 2 host (sim/cluster/device_model.h), or -1 where the device's model is
/// unknown. Layers: sums over the ops of one module, of all phases; the `most` longest ones.
/// `models` [num_devices]: null where unknown. Source: Williams, Waterman, Patterson, "Roofline",
/// CACM 2009.
std::string roofline(const Problem& problem, const Timeline& timeline,
                     std::span<const DeviceModel* const> models, std::size_t most = 100);

}  // namespace baechi
