/// A plan: a placed graph as tasks in queues, which a replay runs. File format:
/// validate/FORMATS.md.
#pragma once
#include <charconv>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/names.h"

namespace baechi::validate {

/// The largest number in a file of a validation run: sums of some thousands stay in 63 bits.
inline constexpr std::int64_t most_number = std::int64_t{1} << 50;

/// A file is not in the format of FORMATS.md: one line per mistake, each "path:line:column: what".
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Field {
  std::string_view text;
  std::size_t column = 1;  ///< in bytes
};

/// `line` at its separators. At ' ' several count as one; at ',' empty fields are kept.
std::vector<Field> split(std::string_view line, char separator);

/// The parts, one behind the other.
std::string joined(const auto&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// The lines of a text, the last with or without its '\n'.
class Lines {
 public:
  Lines(std::string_view text, std::string_view path) : rest_(text), path_(path) {}

  bool next();  ///< false at the end
  std::string_view line() const { return line_; }
  std::size_t number() const { return number_; }  ///< of line(), from 1

  /// "path:line:column: "
  std::string where(std::size_t column = 1) const;
  /// Keeps the first 20 mistakes, and then that there may be more.
  void mistake(std::size_t column, std::string_view what);
  bool too_many() const { return mistakes_ >= most_mistakes; }
  bool any_mistake() const { return mistakes_ != 0; }
  const std::string& mistakes() const { return messages_; }  ///< one per line
  /// Throws BadInput with all mistakes, if there are any.
  void finish() const;

  /// `field` as a whole number in [least, most]; otherwise a mistake that names `what`, and
  /// nothing.
  std::optional<std::int64_t> whole(const Field& field, std::string_view what,
                                    std::int64_t least = 0, std::int64_t most = most_number);

 private:
  static constexpr std::size_t most_mistakes = 20;
  void add(const std::string& message);

  std::string_view rest_, path_, line_;
  std::size_t number_ = 0;
  std::size_t mistakes_ = 0;
  std::string messages_;
};

using baechi::to_text;

using Nanoseconds = std::chrono::duration<std::int64_t, std::nano>;

/// How the host hands the tasks of a step to the GPU: as one graph, as streams behind a gate, or as
/// it comes to them.
enum class SubmitMode : std::uint8_t { graph, stream };
constexpr auto names_of(SubmitMode) { return enumerators<SubmitMode::stream>(); }
/// The way of a transfer: a task of a stated time, copies through host memory, or from GPU to GPU.
enum class Way : std::uint8_t { link, host };
constexpr auto names_of(Way) {
  return std::to_array<Named<Way>>({{Way::link, "link"}, {Way::host, "host"}});
}
enum class BodyKind : std::uint8_t { spin, gemm, ew, cublas };
constexpr auto names_of(BodyKind) { return enumerators<BodyKind::cublas>(); }

/// The body of an op. `args`: spin: ns; gemm: n; ew: bytes; cublas: m, n, k.
struct Body {
  BodyKind kind = BodyKind::spin;
  std::int64_t args[3]{};
  double amount() const;  ///< work: ns of a spin, flops of a product, bytes of ew
  friend bool operator==(const Body&, const Body&) = default;
};
std::string args_text(const Body& body);  ///< "512", "64 64 128"
std::string to_text(const Body& body);    ///< "gemm 512"

struct Task {
  static constexpr int host = -1;  ///< as an end of a transfer

  bool transfer = false;
  int device = 0;            ///< that runs the op; the sender of a transfer, or `host`
  int to = 0;                ///< the receiver of a transfer, or `host`
  int queue = 0;             ///< of a transfer: which transfer queue of its device
  std::int64_t bytes = 0;    ///< of a transfer
  Nanoseconds length{};      ///< simulated length of the task, undisturbed
  Body body{};               ///< of an op
  std::vector<int> after{};  ///< earlier tasks, ascending

  int owner() const { return transfer && device == host ? to : device; }
  friend bool operator==(const Task&, const Task&) = default;
};

/// Memory taken when `task` starts and given back when all of `until` have ended.
struct Buffer {
  int device = 0;
  std::int64_t bytes = 0;
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
  std::vector<std::int64_t> budget;    ///< bytes, resident ones included [devices]
  std::vector<std::int64_t> resident;  ///< bytes held throughout [devices]
  std::vector<Task> tasks;             ///< in submission order
  std::vector<Buffer> buffers;

  /// Queues are numbered by device: its compute queue, then the queues of its transfers.
  std::size_t num_queues() const {
    return static_cast<std::size_t>(devices) * static_cast<std::size_t>(1 + queues);
  }
  std::size_t queue_of(const Task& task) const {
    const int own = task.transfer ? 1 + task.queue : 0;
    return static_cast<std::size_t>(task.owner()) * static_cast<std::size_t>(1 + queues) +
           static_cast<std::size_t>(own);
  }
  friend bool operator==(const ReplayPlan&, const ReplayPlan&) = default;
};

std::string plan_text(const ReplayPlan& plan);

/// Throws BadInput, up to 20 mistakes at once.
ReplayPlan parse_plan(std::string_view text, const std::string& path);

}  // namespace baechi::validate
