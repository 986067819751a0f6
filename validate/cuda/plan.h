/// A plan: a placed graph as tasks in queues, the harness's input. Format: ../FORMATS.md.
#pragma once
#include <cstdint>
#include <istream>
#include <stdexcept>
#include <string>
#include <vector>

namespace replay {

/// A file or flag is wrong; one line per mistake, each with `file:line:`.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Mode { graph, stream, eager };
enum class Way { link, host, peer };
enum class Memory { none, live };

const char* name_of(Mode mode);
const char* name_of(Way way);

/// What an op runs. `a`, `b`, `c`: spin ns; gemm N; ew bytes; cublas M N K.
struct Body {
  enum class Kind { spin, gemm, ew, cublas };
  Kind kind = Kind::spin;
  std::int64_t a = 0, b = 0, c = 0;
};

const char* name_of(Body::Kind kind);
std::string args_of(const Body& body);  ///< As in a plan: "512", "64 64 128".

constexpr int host = -1;  ///< an end of a transfer of way `host`

struct Task {
  bool transfer = false;
  int device = 0;        ///< whose queue it is in
  int queue = -1;        ///< -1: the compute queue; else a transfer queue
  int from = 0, to = 0;  ///< of a transfer: a device, or `host`
  std::int64_t bytes = 0;
  std::int64_t ns = 0;
  Body body{};
  std::vector<int> after{};  ///< ascending
};

struct Buffer {
  int device = 0;
  std::int64_t bytes = 0;
  int task = 0;            ///< at whose start it is taken
  std::vector<int> until;  ///< at the end of the last of these it is given back
};

struct Plan {
  std::string name{};
  std::string hash = "0000000000000000";
  int devices = 1;
  int queues = 1;  ///< transfer queues per device
  Mode mode = Mode::graph;
  Way way = Way::link;
  Memory memory = Memory::none;
  std::vector<std::int64_t> budget{};    ///< [devices]
  std::vector<std::int64_t> resident{};  ///< [devices]
  std::vector<Task> tasks{};
  std::vector<Buffer> buffers{};

  /// Number of a task's queue: device by device, the compute queue first.
  int queue_of(const Task& task) const { return task.device * (1 + queues) + 1 + task.queue; }
  int num_queues() const { return devices * (1 + queues); }
};

/// Reads one plan. Throws BadInput with all mistakes (at most 20), as `file:line: ...`.
Plan read_plan(std::istream& in, const std::string& file);

/// Throws BadInput also if the file cannot be read.
Plan read_plan_file(const std::string& file);

}  // namespace replay
