#include "validate/plan/benchmarks.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>

namespace baechi::validate {

const char* Measurement::header() { return "what,mode,way,subject,args,against,count,round,value"; }

std::string Measurement::line() const {
  char number[32];
  std::snprintf(number, sizeof number, "%.12g", value);
  std::string text;
  for (const std::string& field : {what, mode, way, subject, args, against}) text += field + ",";
  return text + std::to_string(count) + "," + std::to_string(round) + "," + number;
}

std::vector<Body> BenchmarkScale::ops_of_gpu() {
  std::vector<Body> all;
  for (const std::int64_t us : {2, 10, 100, 1000})
    all.push_back({.kind = BodyKind::spin, .args = {us * 1000}});
  for (const std::int64_t n : {128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096})
    all.push_back({.kind = BodyKind::gemm, .args = {n}});
  for (std::int64_t bytes = 64 << 10; bytes <= 512 << 20; bytes *= 2)
    all.push_back({.kind = BodyKind::ew, .args = {bytes}});
  return all;
}

}  // namespace baechi::validate

namespace baechi::validate::replay {

namespace {

constexpr std::int64_t lead = 20'000;  // ns of the spin that a subject follows

Benchmark gap(SubmitMode mode, bool cross) {
  constexpr int chain = 100;
  Benchmark b{.row = {.what = cross ? "gap_cross" : "gap_same",
                      .mode = std::string(to_text(mode)),
                      .count = chain},
              .plan = empty_plan("gap", cross ? 2 : 1, mode, Way::link),
              .value = Benchmark::Value::gaps};
  for (int i = 0; i < chain; ++i)
    add_spin(b.plan, cross ? i % 2 : 0, 5'000,
             i == 0 ? std::vector<int>{} : std::vector<int>{i - 1});
  return b;
}

/// A chain of real ops, which start and end otherwise than spins of one block.
Benchmark gap_behind(SubmitMode mode, const Body& body) {
  constexpr int chain = 12;
  Benchmark b{.row = {.what = "gap_same",
                      .mode = std::string(to_text(mode)),
                      .subject = std::string(to_text(body.kind)),
                      .args = args_text(body),
                      .count = chain},
              .plan = empty_plan("gap", 1, mode, Way::link),
              .value = Benchmark::Value::gaps};
  for (int i = 0; i < chain; ++i) add_op(b.plan, 0, body);
  return b;
}

/// Spins that wait for one on each of two other devices.
Benchmark fan_in(SubmitMode mode) {
  constexpr int joins = 10;
  Benchmark b{.row = {.what = "gap_fan_in", .mode = std::string(to_text(mode)), .count = 2},
              .plan = empty_plan("gap", 3, mode, Way::link),
              .value = Benchmark::Value::fan_in};
  std::vector<int> joined;
  for (int i = 0; i < joins; ++i) {
    const int left = add_spin(b.plan, 1, 5'000, joined);
    const int right = add_spin(b.plan, 2, 5'000, joined);
    joined = {add_spin(b.plan, 0, 5'000, {left, right})};
    if (i > 0) b.readers.push_back(joined.front());
  }
  return b;
}

/// A chain that alternates between the first two devices, so that each task has an event and a
/// wait.
Benchmark submission(SubmitMode mode, bool transfers, int count, int devices) {
  const int last = devices > 1 ? 1 : 0;
  Benchmark b{.row = {.what = "submit",
                      .mode = std::string(to_text(mode)),
                      .subject = mode == SubmitMode::graph ? ""
                                 : transfers               ? "transfer"
                                                           : "op",
                      .count = count},
              .plan = empty_plan("submit", last + 1, mode, Way::link),
              .value = Benchmark::Value::submission};
  for (int i = 0; i < count; ++i) {
    std::vector<int> after = i == 0 ? std::vector<int>{} : std::vector<int>{i - 1};
    if (transfers)
      add_transfer(b.plan, i % 2, 1 - i % 2, 1024, 2'000, std::move(after));
    else
      add_spin(b.plan, i % (last + 1), 2'000, std::move(after));
  }
  return b;
}

struct CopyKind {
  Way way = Way::link;
  const char* subject = "";
  std::int64_t ns = 0;  ///< length of a copy over a link
};

int add_copy(ReplayPlan& plan, const CopyKind& kind, int device, std::int64_t bytes, int producer) {
  const int next = (device + 1) % plan.devices;
  const std::string subject = kind.subject;
  const int from = subject == "h2d" ? Task::host : device;
  const int to = subject == "d2h" ? Task::host : subject == "h2d" ? device : next;
  return add_transfer(plan, from, to, bytes, kind.ns, {producer});
}

std::string args_of_copy(const CopyKind& kind, std::int64_t bytes) {
  return std::to_string(bytes) + (kind.way == Way::link ? " " + std::to_string(kind.ns) : "");
}

/// A benchmark of copies, without its tasks.
Benchmark of_copies(const char* what, SubmitMode mode, const CopyKind& kind, std::int64_t bytes,
                    int devices, int count) {
  return {.row = {.what = what,
                  .mode = std::string(to_text(mode)),
                  .way = std::string(to_text(kind.way)),
                  .subject = kind.subject,
                  .args = args_of_copy(kind, bytes),
                  .count = count},
          .plan = empty_plan(what, devices, mode, kind.way),
          .value = Benchmark::Value::hand_over};
}

Benchmark copy(SubmitMode mode, const CopyKind& kind, std::int64_t bytes, int in_a_row) {
  Benchmark b = of_copies("copy", mode, kind, bytes, 2, in_a_row);
  b.subjects = {add_spin(b.plan, 0, lead)};
  int last = 0;
  for (int i = 0; i < in_a_row; ++i) last = add_copy(b.plan, kind, 0, bytes, b.subjects.front());
  b.readers = {add_spin(b.plan, 1, lead, {last})};
  return b;
}

Benchmark contention(SubmitMode mode, const CopyKind& kind, std::int64_t bytes, int devices,
                     int busy) {
  Benchmark b = of_copies("contention", mode, kind, bytes, devices, busy);
  for (int i = 0; i < busy; ++i) b.subjects.push_back(add_spin(b.plan, i, lead));
  std::vector<int> copies;
  copies.reserve(b.subjects.size());
  for (const int producer : b.subjects)
    copies.push_back(add_copy(b.plan, kind, producer, bytes, producer));  // device i's is task i
  for (int i = 0; i < busy; ++i)
    b.readers.push_back(
        add_spin(b.plan, (i + 1) % devices, lead, {copies[static_cast<std::size_t>(i)]}));
  return b;
}

/// The first transfer's producer is late, the second's is early: the sample is positive if the
/// second, though ready, has waited for the first.
Benchmark order(SubmitMode mode, const CopyKind& kind, std::int64_t bytes) {
  Benchmark b = of_copies("order", mode, kind, bytes, 2, 2);
  const int late = add_spin(b.plan, 0, 50 * lead), early = add_spin(b.plan, 1, lead);
  const int first = add_copy(b.plan, kind, 0, bytes, late);
  const int second = add_copy(b.plan, kind, 1, bytes, early);
  b.subjects = {late};
  add_spin(b.plan, 0, lead, {first});
  b.readers = {add_spin(b.plan, 1, lead, {second})};
  return b;
}

Benchmark op(SubmitMode mode, const Body& body) {
  Benchmark b{.row = {.what = "op",
                      .mode = std::string(to_text(mode)),
                      .subject = std::string(to_text(body.kind)),
                      .args = args_text(body),
                      .count = 1},
              .plan = empty_plan("op", 1, mode, Way::link),
              .value = Benchmark::Value::lengths};
  add_spin(b.plan, 0, lead);
  b.subjects = {add_op(b.plan, 0, body), add_op(b.plan, 0, body)};
  return b;
}

/// Device 0 runs the subject while the devices behind it run theirs again and again.
Benchmark interference(const Body& subject, const Body& neighbour, int count) {
  constexpr int subjects = 4;
  constexpr int repeats = 24;
  constexpr std::int64_t head_start = 200'000;
  Benchmark b{.row = {.what = "interference",
                      .mode = std::string(to_text(SubmitMode::graph)),
                      .subject = std::string(to_text(subject.kind)),
                      .args = args_text(subject),
                      .against = std::string(to_text(neighbour.kind)),
                      .count = count},
              .plan = empty_plan("interference", count + 1, SubmitMode::graph, Way::link),
              .value = Benchmark::Value::lengths};
  for (int i = 0; i < repeats; ++i)
    for (int device = 1; device <= count; ++device)
      b.neighbours.push_back(add_op(b.plan, device, neighbour));
  add_spin(b.plan, 0, head_start);
  for (int i = 0; i < subjects; ++i) b.subjects.push_back(add_op(b.plan, 0, subject));
  return b;
}

Body spin(std::int64_t ns) { return {.kind = BodyKind::spin, .args = {ns}}; }
Body gemm(std::int64_t n) { return {.kind = BodyKind::gemm, .args = {n}}; }
Body cublas(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.kind = BodyKind::cublas, .args = {m, n, k}};
}

std::vector<Body> cublas_bodies() {
  std::vector<Body> all;
  for (const std::int64_t n : {128, 256, 512, 1024, 2048, 4096}) all.push_back(cublas(n, n, n));
  for (const std::int64_t n : {1024, 4096}) {
    all.push_back(cublas(256, n, 1024));
    all.push_back(cublas(2048, n, 1024));
  }
  return all;
}

/// The scale with cuBLAS's products beside its own bodies.
BenchmarkScale with_cublas(BenchmarkScale scale) {
  const std::vector<Body> products = cublas_bodies();
  scale.ops.insert(scale.ops.end(), products.begin(), products.end());
  scale.in_chains.push_back(cublas(512, 512, 512));
  scale.neighbours.push_back(cublas(4096, 4096, 4096));
  scale.subjects.push_back(cublas(2048, 2048, 2048));
  return scale;
}

constexpr CopyKind copy_kinds[]{
    {.way = Way::link}, {.way = Way::host, .subject = "d2h"}, {.way = Way::host, .subject = "h2d"}};

void add_copies(std::vector<Benchmark>& all, int devices, const BenchmarkScale& scale) {
  const auto time_at = [](const BenchmarkScale::Pace& pace, std::int64_t bytes) {
    return pace.fixed + bytes * pace.per_10_000 / 10'000;
  };
  for (const SubmitMode mode : scale.modes) {
    for (CopyKind kind : copy_kinds) {
      for (std::int64_t bytes = 64; bytes <= scale.largest_copy; bytes *= 4) {
        for (const int in_a_row : {1, 4}) all.push_back(copy(mode, kind, bytes, in_a_row));
        if (kind.way != Way::link) continue;
        CopyKind paced = kind;
        for (std::size_t k = 0; k < scale.paces.size(); ++k) {
          paced.ns = time_at(scale.paces[k], bytes);
          if (k == 0 || bytes <= scale.copies_at_once) all.push_back(copy(mode, paced, bytes, 1));
          if (k == 0) all.push_back(copy(mode, paced, bytes, 4));
        }
      }
      if (kind.way == Way::host) all.push_back(order(mode, kind, 1024));
      if (kind.way == Way::link) kind.ns = time_at(scale.paces.front(), scale.copies_at_once);
      for (int busy = 1; busy <= devices; ++busy)
        all.push_back(contention(mode, kind, scale.copies_at_once, devices, busy));
    }
  }
}

void add_interference(std::vector<Benchmark>& all, int devices, const BenchmarkScale& scale) {
  for (const Body& subject : scale.subjects)
    for (const Body& neighbour : scale.neighbours)
      for (int count = 1; count < devices; ++count)
        all.push_back(interference(subject, neighbour, count));
}

/// Busy on every neighbour device from `subject`'s start to its end.
bool surrounded(const Benchmark& b, const Timeline& times, const Interval& subject) {
  std::map<int, Interval> busy;
  for (const int n : b.neighbours) {
    const Interval& run = times[static_cast<std::size_t>(n)];
    const auto [device, is_new] =
        busy.try_emplace(b.plan.tasks[static_cast<std::size_t>(n)].owner(), run);
    device->second.end = std::max(device->second.end, run.end);
  }
  return std::ranges::all_of(busy, [&](const auto& device) {
    return device.second.start <= subject.start && device.second.end >= subject.end;
  });
}

}  // namespace

std::vector<double> Benchmark::samples(const Timeline& times, std::int64_t first_ns,
                                       std::int64_t submit_ns) const {
  std::vector<double> found;
  const auto at = [&](int task) -> const Interval& {
    return times[static_cast<std::size_t>(task)];
  };
  switch (value) {
    case Value::submission:
      if (plan.mode == SubmitMode::graph)
        found.push_back(static_cast<double>(submit_ns));
      else
        found.push_back(static_cast<double>(submit_ns - first_ns) /
                        static_cast<double>(plan.tasks.size() - 1));
      break;
    case Value::gaps:
      for (std::size_t i = 2; i < times.size(); ++i)
        found.push_back(static_cast<double>(times[i].start - times[i - 1].end));
      break;
    case Value::hand_over: {
      std::int64_t produced = std::numeric_limits<std::int64_t>::min();
      std::int64_t read = produced;
      for (const int task : subjects) produced = std::max(produced, at(task).end);
      for (const int task : readers) read = std::max(read, at(task).start);
      found.push_back(static_cast<double>(read - produced));
      break;
    }
    case Value::fan_in:
      for (const int task : readers) {
        std::int64_t ended = std::numeric_limits<std::int64_t>::min();
        for (const int before : plan.tasks[static_cast<std::size_t>(task)].after)
          ended = std::max(ended, at(before).end);
        found.push_back(static_cast<double>(at(task).start - ended));
      }
      break;
    case Value::lengths:
      for (const int task : subjects)
        if (surrounded(*this, times, at(task)))
          found.push_back(static_cast<double>(at(task).length()));
  }
  return found;
}

std::vector<Benchmark> benchmarks(const BenchmarkOptions& options) {
  const BenchmarkScale scale = options.cublas ? with_cublas(options.scale) : options.scale;
  const int devices = options.devices;
  std::vector<Benchmark> all;
  if (devices > 1) add_copies(all, devices, scale);
  for (const SubmitMode mode : scale.modes) {
    all.push_back(gap(mode, false));
    if (devices > 1) all.push_back(gap(mode, true));
    for (const Body& body : scale.in_chains) all.push_back(gap_behind(mode, body));
    if (devices > 2) all.push_back(fan_in(mode));
    for (const Body& body : scale.ops) all.push_back(op(mode, body));
    all.push_back(submission(mode, false, mode == SubmitMode::graph ? 100 : 101, devices));
    if (mode == SubmitMode::stream && devices > 1)
      all.push_back(submission(mode, true, 101, devices));
  }
  add_interference(all, devices, scale);
  return all;
}

Benchmark canary() {
  Benchmark b = op(SubmitMode::graph, gemm(2048));
  b.row.what = "canary";
  return b;
}

ReplayPlan empty_plan(const std::string& name, int devices, SubmitMode mode, Way way) {
  ReplayPlan plan;
  plan.name = name;
  plan.devices = devices;
  plan.mode = mode;
  plan.way = way;
  plan.budget.assign(static_cast<std::size_t>(devices), 0);
  plan.resident = plan.budget;
  return plan;
}

int add_op(ReplayPlan& plan, int device, const Body& body, std::vector<int> after) {
  plan.tasks.push_back({.device = device,
                        .length = Nanoseconds{body.kind == BodyKind::spin ? body.args[0] : 0},
                        .body = body,
                        .after = std::move(after)});
  return static_cast<int>(plan.tasks.size()) - 1;
}

int add_spin(ReplayPlan& plan, int device, std::int64_t ns, std::vector<int> after) {
  return add_op(plan, device, spin(ns), std::move(after));
}

int add_transfer(ReplayPlan& plan, int from, int to, std::int64_t bytes, std::int64_t ns,
                 std::vector<int> after) {
  plan.tasks.push_back({.transfer = true,
                        .device = from,
                        .to = to,
                        .bytes = bytes,
                        .length = Nanoseconds{ns},
                        .body = {},
                        .after = std::move(after)});
  return static_cast<int>(plan.tasks.size()) - 1;
}

}  // namespace baechi::validate::replay
