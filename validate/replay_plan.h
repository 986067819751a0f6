/// A placed graph as tasks in queues: what a replay does. The file format is that of
/// validate/FORMATS.md.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/names.h"
#include "sim/units.h"

namespace baechi {

enum class SubmitMode : std::uint8_t { graph, stream, eager };
constexpr auto names_of(SubmitMode) {
  return std::to_array<Named<SubmitMode>>(
      {{SubmitMode::graph, "graph"}, {SubmitMode::stream, "stream"}, {SubmitMode::eager, "eager"}});
}
enum class Way : std::uint8_t { link, host, peer };
constexpr auto names_of(Way) {
  return std::to_array<Named<Way>>({{Way::link, "link"}, {Way::host, "host"}, {Way::peer, "peer"}});
}
enum class BodyKind : std::uint8_t { spin, gemm, ew, cublas };
constexpr auto names_of(BodyKind) {
  return std::to_array<Named<BodyKind>>({{BodyKind::spin, "spin"},
                                         {BodyKind::gemm, "gemm"},
                                         {BodyKind::ew, "ew"},
                                         {BodyKind::cublas, "cublas"}});
}

/// What an op runs. `args`: spin: ns; gemm: n; ew: bytes; cublas: m, n, k.
struct Body {
  BodyKind kind = BodyKind::spin;
  std::int64_t args[3]{};
  double amount() const;  ///< of work: ns of a spin, flops of a product, bytes of ew
  friend bool operator==(const Body&, const Body&) = default;
};
std::string to_text(const Body& body);  ///< "gemm 512"

struct Task {
  static constexpr int host = -1;  ///< as an end of a transfer

  bool transfer = false;
  int device = 0;            ///< of an op; the sender of a transfer, or `host`
  int to = 0;                ///< the receiver of a transfer, or `host`
  int queue = 0;             ///< of a transfer: which of its device's
  Bytes bytes{};             ///< of a transfer
  Duration length{};         ///< what the simulator takes it to last, undisturbed
  Body body{};               ///< of an op
  std::vector<int> after{};  ///< earlier tasks, ascending

  int owner() const { return transfer && device == host ? to : device; }  ///< of its queue
  friend bool operator==(const Task&, const Task&) = default;
};

/// Memory taken when `task` starts and given back when all of `until` have ended.
struct Buffer {
  int device = 0;
  Bytes bytes{};
  int task = 0;
  std::vector<int> until;  ///< not empty, ascending
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct ReplayPlan {
  std::string name;
  std::uint64_t hash = 0;
  int devices = 1;
  int queues = 1;  ///< of transfers, per device
  SubmitMode mode = SubmitMode::graph;
  Way way = Way::link;
  bool live_memory = false;     ///< budgets are enforced
  std::vector<Bytes> budget;    ///< [devices]
  std::vector<Bytes> resident;  ///< [devices]
  std::vector<Task> tasks;      ///< in submission order
  std::vector<Buffer> buffers;

  /// Queues are numbered by device: its compute queue, then those of its transfers.
  std::size_t num_queues() const {
    return static_cast<std::size_t>(devices) * (static_cast<std::size_t>(queues) + 1);
  }
  std::size_t queue_of(const Task& task) const {
    return static_cast<std::size_t>(task.owner()) * (static_cast<std::size_t>(queues) + 1) +
           (task.transfer ? static_cast<std::size_t>(task.queue) + 1 : 0);
  }
  friend bool operator==(const ReplayPlan&, const ReplayPlan&) = default;
};

std::string plan_text(const ReplayPlan& plan);

/// Throws InputError with path:line:column, up to 20 mistakes at once.
ReplayPlan parse_plan(std::string_view text, const std::string& path);
ReplayPlan read_plan(const std::string& path);  ///< may be compressed

}  // namespace baechi
