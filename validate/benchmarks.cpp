#include "validate/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace baechi::validate {
namespace {

constexpr std::int64_t short_spin = 20'000;

/// A plan under construction.
class Bench {
 public:
  Bench(int devices, SubmitMode mode, Way way) {
    plan_.name = "benchmark";
    plan_.devices = devices;
    plan_.queues = 2;
    plan_.mode = mode;
    plan_.way = way;
    plan_.budget.resize(static_cast<std::size_t>(devices));
    plan_.resident.resize(static_cast<std::size_t>(devices));
  }

  int op(int device, Body body, std::vector<int> after = {}) {
    Task task{.device = device, .body = body, .after = std::move(after)};
    if (body.kind == BodyKind::spin) task.length = Duration{body.args[0]};
    return add(std::move(task));
  }
  int spin(int device, std::vector<int> after = {}) {
    return op(device, {.kind = BodyKind::spin, .args = {short_spin}}, std::move(after));
  }
  int transfer(int from, int to, std::int64_t bytes, std::int64_t ns, std::vector<int> after) {
    return add({.transfer = true,
                .device = from,
                .to = to,
                .queue = from == Task::host ? 1 : 0,
                .bytes = bytes,
                .length = Duration{ns},
                .body = {},
                .after = std::move(after)});
  }
  /// Nothing if it failed: that costs the samples of this benchmark, and no others.
  std::optional<Outcome> run(Executor& executor) const {
    Outcome outcome = executor.run(plan_);
    if (outcome.verdict != Verdict::ok) return std::nullopt;
    return outcome;
  }
  std::size_t num_tasks() const { return plan_.tasks.size(); }

 private:
  int add(Task task) {
    plan_.tasks.push_back(std::move(task));
    return static_cast<int>(plan_.tasks.size()) - 1;
  }
  ReplayPlan plan_;
};

class Benchmarks {
 public:
  explicit Benchmarks(Executor& executor)
      : executor_(executor),
        devices_(static_cast<int>(executor.machine().partitions.size())),
        scale_(executor.scale()) {}

  std::vector<Measurement> run(int rounds, const Watch& watch) {
    std::atomic<std::size_t> done = 0;
    const auto watched = begin_watch(watch, done, static_cast<std::size_t>(rounds));
    for (round_ = 0; round_ < rounds; ++round_, ++done) {
      for (const SubmitMode mode : scale_.modes) {
        mode_ = mode;
        gaps();
        gaps_behind();
        fan_in();
        link_copies();
        host_copies();
        ops();
        if (devices_ > 1) interference();
      }
      for (const std::int64_t budget : {std::int64_t{256} << 20, (std::int64_t{1002} << 20) - 1})
        add({.what = "granule",
             .args = fmt::format("{}", budget),
             .value = static_cast<double>(executor_.usable({budget}).count)});
    }
    return std::move(rows_);
  }

 private:
  static double ns(Duration d) { return static_cast<double>(d.count()); }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void add(Measurement row) {
    row.round = round_;
    if (row.what != "granule") row.mode = to_text(mode_);
    rows_.push_back(std::move(row));
  }

  void gaps() {
    constexpr int length = 100;
    for (const bool cross : {false, true}) {
      if (cross && devices_ < 2) continue;
      Bench chain(devices_, mode_, Way::link);
      for (int i = 0; i < length; ++i)
        chain.spin(cross ? i % 2 : 0, i == 0 ? std::vector<int>{} : std::vector{i - 1});
      const auto outcome = chain.run(executor_);
      if (!outcome) continue;
      for (int i = 1; i < length; i += 9)
        add({.what = cross ? "gap_cross" : "gap_same",
             .count = length,
             .value = ns(outcome->replay.start[at(i)] - outcome->replay.end[at(i - 1)])});
      const double submit = ns(outcome->submit);
      if (!cross)
        add({.what = "submit",
             .subject = mode_ == SubmitMode::graph ? "" : "op",
             .count = length,
             .value = mode_ == SubmitMode::graph ? submit : submit / length});
    }
  }

  /// Between real ops, which start and end otherwise than spins.
  void gaps_behind() {
    constexpr int length = 12;
    const Body bodies[] = {{.kind = BodyKind::gemm, .args = {scale_.gemm_beside}},
                           {.kind = BodyKind::ew, .args = {scale_.ew_beside}}};
    for (const Body& body : bodies) {
      Bench chain(devices_, mode_, Way::link);
      for (int i = 0; i < length; ++i)
        chain.op(0, body, i == 0 ? std::vector<int>{} : std::vector{i - 1});
      const auto outcome = chain.run(executor_);
      if (!outcome) continue;
      const std::string text = to_text(body);
      for (int i = 2; i < length; i += 3)
        add({.what = "gap_same",
             .subject = std::string(to_text(body.kind)),
             .args = text.substr(text.find(' ') + 1),
             .count = length,
             .value = ns(outcome->replay.start[at(i)] - outcome->replay.end[at(i - 1)])});
    }
  }

  /// Spins that wait for one on each of two other devices.
  void fan_in() {
    if (devices_ < 3) return;
    constexpr int rounds = 6;
    Bench bench(devices_, mode_, Way::link);
    std::vector<int> joined;
    for (int i = 0; i < rounds; ++i) {
      const int left = bench.spin(1, joined), right = bench.spin(2, joined);
      joined = {bench.spin(0, {left, right})};
    }
    const auto outcome = bench.run(executor_);
    if (!outcome) return;
    const auto& [start, end] = std::tie(outcome->replay.start, outcome->replay.end);
    for (int i = 1; i < rounds; ++i)
      add({.what = "gap_fan_in",
           .count = 2,
           .value = ns(start[at(3 * i + 2)] - std::max(end[at(3 * i)], end[at(3 * i + 1)]))});
  }

  /// From the producer's end to the reader's start, `count` transfers between them.
  void copy(Way way, std::string direction, std::int64_t bytes, std::int64_t told, int count) {
    Bench bench(devices_, mode_, way);
    const int producer = bench.spin(0);
    const int reader_device = devices_ > 1 ? 1 : 0;
    int last = producer;
    for (int k = 0; k < count; ++k)
      last = bench.transfer(direction == "h2d" ? Task::host : 0,
                            direction == "d2h" ? Task::host : 1, bytes, told, {producer});
    const int reader = bench.spin(reader_device, {last});
    const auto outcome = bench.run(executor_);
    if (!outcome) return;
    add({.what = "copy",
         .way = std::string(to_text(way)),
         .subject = std::move(direction),
         .args = way == Way::link ? fmt::format("{} {}", bytes, told) : fmt::format("{}", bytes),
         .count = count,
         .value = ns(outcome->replay.start[at(reader)] - outcome->replay.end[at(producer)])});
  }

  void contention(Way way, const std::string& direction, std::int64_t bytes, std::int64_t told,
                  int count) {
    Bench bench(devices_, mode_, way);
    std::vector<int> producers, readers;
    for (int d = 0; d < count; ++d) producers.push_back(bench.spin(d));
    for (int d = 0; d < count; ++d) {
      const int to = (d + 1) % devices_;
      const int sent =
          bench.transfer(direction == "h2d" ? Task::host : d, direction == "d2h" ? Task::host : to,
                         bytes, told, {producers[at(d)]});
      readers.push_back(bench.spin(to, {sent}));
    }
    const auto outcome = bench.run(executor_);
    if (!outcome) return;
    Duration end{}, start{};
    for (const int p : producers) end = std::max(end, outcome->replay.end[at(p)]);
    for (const int r : readers) start = std::max(start, outcome->replay.start[at(r)]);
    add({.what = "contention",
         .way = std::string(to_text(way)),
         .subject = direction,
         .args = way == Way::link ? fmt::format("{} {}", bytes, told) : fmt::format("{}", bytes),
         .count = count,
         .value = ns(start - end)});
  }

  void link_copies() {
    if (devices_ < 2) return;
    for (std::int64_t bytes = 64; bytes <= scale_.largest_copy; bytes *= 8)
      copy(Way::link, "", bytes, 0, 1);
    for (const std::int64_t told : {20'000, 150'000}) {
      for (const int count : {1, 4}) copy(Way::link, "", 65'536, told, count);
    }
    for (const int count : {1, devices_}) contention(Way::link, "", 65'536, 150'000, count);
  }

  void host_copies() {
    for (const char* direction : {"d2h", "h2d"}) {
      for (std::int64_t bytes = 64; bytes <= scale_.largest_copy; bytes *= 8)
        copy(Way::host, direction, bytes, 0, 1);
      copy(Way::host, direction, 65'536, 0, 4);
      copy(Way::host, direction, std::int64_t{4} << 20U, 0, 4);
      if (devices_ < 2) continue;
      for (const int count : {1, devices_})
        contention(Way::host, direction, scale_.copies_at_once, 0, count);
    }
  }

  void op(Body body) {
    Bench bench(devices_, mode_, Way::link);
    std::vector<int> ids;
    if (scale_.warm) bench.spin(0);
    for (int i = 0; i < (scale_.warm ? 2 : 1); ++i) ids.push_back(bench.op(0, body));
    const auto outcome = bench.run(executor_);
    if (!outcome) return;
    for (const int id : ids)
      add_op("op", body, "", 1, outcome->replay.end[at(id)] - outcome->replay.start[at(id)]);
  }

  void add_op(const char* what, Body body, std::string against, int count, Duration length) {
    const std::string text = to_text(body);
    add({.what = what,
         .subject = std::string(to_text(body.kind)),
         .args = text.substr(text.find(' ') + 1),
         .against = std::move(against),
         .count = count,
         .value = ns(length)});
  }

  void ops() {
    for (const std::int64_t n : scale_.gemm) op({.kind = BodyKind::gemm, .args = {n}});
    for (const std::int64_t bytes : scale_.ew) op({.kind = BodyKind::ew, .args = {bytes}});
  }

  void interference() {
    const Body bodies[] = {{.kind = BodyKind::gemm, .args = {scale_.gemm_beside}},
                           {.kind = BodyKind::ew, .args = {scale_.ew_beside}}};
    for (const Body& body : bodies)
      for (const Body& neighbour : bodies)
        for (int count = 1; count < devices_; ++count) beside(body, neighbour, count);
  }

  void beside(const Body& body, const Body& neighbour, int count) {
    Bench bench(devices_, mode_, Way::link);
    for (int d = 1; d <= count; ++d)
      for (int k = 0; k < 40; ++k) bench.op(d, neighbour);
    bench.op(0, {.kind = BodyKind::spin, .args = {200'000}});  // until all neighbours run
    const int id = bench.op(0, body);
    const auto outcome = bench.run(executor_);
    if (!outcome) return;
    add_op("interference", body, std::string(to_text(neighbour.kind)), count,
           outcome->replay.end[at(id)] - outcome->replay.start[at(id)]);
  }

  Executor& executor_;
  const int devices_;
  const BenchmarkScale scale_;
  SubmitMode mode_ = SubmitMode::graph;
  std::int64_t round_ = 0;
  std::vector<Measurement> rows_;
};

}  // namespace

std::vector<Measurement> run_benchmarks(Executor& executor, int rounds, const Watch& watch) {
  return Benchmarks(executor).run(rounds, watch);
}

}  // namespace baechi::validate
