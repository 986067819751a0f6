#include "sim/accelerator/accelerator.h"

#include <cmath>
#include <numeric>

#include "sim/error.h"

namespace baechi {

std::string to_text(const Accelerator& a) {
  return fmt::format("{} x {}x{} + {} x {} + {}", a.tensor_cores, a.width, a.depth, a.vector_cores,
                     a.width, to_text(a.buffer));
}

std::optional<double> AreaTable::area(const Accelerator& a) const {
  const auto t = tensor_core.find(a.width * a.depth);
  const auto v = vector_core.find(a.width);
  const auto b = buffer.find(a.buffer);
  if (t == tensor_core.end() || v == vector_core.end() || b == buffer.end()) return std::nullopt;
  return static_cast<double>(a.tensor_cores) * t->second +
         static_cast<double>(a.vector_cores) * v->second + b->second;
}

namespace {

/// `parts` equal parts on at most `most` cores: rounds, and the fewest cores for so many rounds.
struct Rounds {
  std::int64_t rounds = 0, cores = 0;
};
Rounds distribute(std::int64_t parts, std::int64_t most) {
  const std::int64_t rounds = std::max<std::int64_t>(1, ceil_div(parts, most));
  return {.rounds = rounds, .cores = std::max<std::int64_t>(1, ceil_div(parts, rounds))};
}

CoreCost gemm_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates) {
  const std::int64_t across = ceil_div(op.k, a.width), along = ceil_div(op.n, a.depth);
  const Rounds tiles = distribute(op.count * across * along, a.tensor_cores);
  const std::int64_t weights = op.k * op.n;
  const std::int64_t once = op.m * op.k + weights + op.m * op.n;
  const bool fits = once * rates.word.count <= a.buffer.count;
  const std::int64_t words = fits ? once : op.m * op.k * along + weights + op.m * op.n * across;
  return {.cores = tiles.cores,
          .cycles = tiles.rounds * (op.m + a.width + a.depth),
          .traffic = Bytes{op.count * words * rates.word.count}};
}

CoreCost vector_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates) {
  const Rounds lanes = distribute(ceil_div(op.elements, a.width), a.vector_cores);
  return {.cores = lanes.cores,
          .cycles = op.elements == 0 ? 0 : op.passes * lanes.rounds,
          .traffic = Bytes{op.words * rates.word.count}};
}

constexpr std::int64_t bytes_of_number = 4;

std::int64_t elements_of(Bytes size) { return size.count / bytes_of_number; }

class CoreTasks {
 public:
  CoreTasks(const OpGraph& graph, std::span<const OpId> ops) : graph_(graph) {
    for (const OpId v : ops) ends_[v];
    for (const OpId v : ops) add(v);
  }
  std::vector<CoreTask> result() && { return std::move(tasks_); }

 private:
  using Ends = std::vector<std::uint32_t>;

  void add(OpId v) {
    std::set<std::uint32_t> before;
    for (const OpId u : graph_.predecessors(v))
      if (const auto it = ends_.find(u); it != ends_.end())
        before.insert(it->second.begin(), it->second.end());
    const Ends waits(before.begin(), before.end());
    ends_[v] = waits;
    if (graph_.kernels(v).empty()) return;
    const OpId f = graph_.op(v).phase == Phase::forward ? v : graph_.op(v).forward;
    const std::string_view kind = f == no_op ? std::string_view() : graph_.kind(f);
    if (kind == "Linear")
      add_linear(v, f, waits);
    else if (kind == "Attention" || kind == "FusedAttention")
      add_attention(v, f, waits);
    else
      for (const OpWork& kernel : graph_.kernels(v)) ends_[v] = {add_vector(v, kernel, ends_[v])};
  }

  std::uint32_t add_task(const CoreOp& op, Ends waits) {
    tasks_.push_back({.op = op, .after = std::move(waits)});
    return static_cast<std::uint32_t>(tasks_.size() - 1);
  }

  InputError unknown(OpId v, std::string_view why) const {
    return InputError(
        fmt::format("op '{}' of kind {}: {} (known: Linear, Attention, FusedAttention and vector "
                    "ops, in graphs with one op per layer)",
                    graph_.name(v), graph_.kind(v), why));
  }

  std::uint32_t add_vector(OpId v, const OpWork& kernel, Ends waits) {
    const std::int64_t words = elements_of(kernel.traffic);
    if (kernel.flops > 16 * words) throw unknown(v, "its GEMM shape is unknown");
    std::int64_t most = 0;
    const auto look_at = [&](TensorId t) {
      if (!graph_.tensor(t).control) most = std::max(most, elements_of(graph_.tensor(t).size));
    };
    for (const TensorId t : graph_.outputs(v)) look_at(t);
    for (const EdgeId e : graph_.in_edges(v)) look_at(graph_.edge(e).tensor);
    const bool whole = most == 0 || kernel.flops < most;
    return add_task({.passes = whole ? 1 : (kernel.flops + most - 1) / most,
                     .elements = whole ? kernel.flops : most,
                     .words = words},
                    std::move(waits));
  }

  /// The number of elements of the only tensor that `v` reads.
  std::int64_t read_by(OpId v) const {
    std::int64_t read = 0;
    for (const EdgeId e : graph_.in_edges(v))
      if (const Tensor& t = graph_.tensor(graph_.edge(e).tensor); !t.control) {
        if (read != 0) throw unknown(v, "it reads more than one tensor");
        read = elements_of(t.size);
      }
    if (read == 0) throw unknown(v, "it reads no tensor");
    return read;
  }
  std::int64_t written_by(OpId v) const {
    if (graph_.outputs(v).empty()) throw unknown(v, "it writes no tensor");
    return elements_of(graph_.tensor(*graph_.outputs(v).begin()).size);
  }

  void add_linear(OpId v, OpId f, const Ends& waits) {
    const std::int64_t x = read_by(f), y = written_by(f), flops = graph_.kernels(f)[0].flops;
    const std::int64_t k = y == 0 ? 0 : flops / (2 * y);
    const std::int64_t m = k == 0 ? 0 : x / k;
    if (m == 0 || m * k != x || y % m != 0) throw unknown(f, "its derived shape is not integral");
    const std::int64_t n = y / m, product = 2 * m * k * n;
    if (v == f) {
      ends_[v] = {add_task({.count = 1, .m = m, .k = k, .n = n}, waits)};
      return;
    }
    // The gradient of x, then that of w; kernels that accumulate gradients have fewer flops.
    std::vector<CoreOp> gemms{{.count = 1, .m = m, .k = n, .n = k},
                              {.count = 1, .m = k, .k = m, .n = n}};
    std::size_t done = 0;
    for (const OpWork& kernel : graph_.kernels(v)) {
      if (kernel.flops < product)
        ends_[v] = {add_vector(v, kernel, ends_[v])};
      else if (done < gemms.size()) {
        const std::uint32_t task = add_task(gemms[done], waits);
        if (done++ == 0) ends_[v] = {task};
      } else {
        throw unknown(v, "it has more than two GEMMs");
      }
    }
  }

  /// The shape [count, length, width] of Q, K and V.
  struct Heads {
    std::int64_t count = 0, length = 0, width = 0;
    std::int64_t scores() const { return count * length * length; }
  };

  Heads heads_of(OpId f, bool fused) const {
    const std::int64_t y = written_by(f), flops = graph_.kernels(f)[0].flops;
    Heads h;
    std::int64_t scores = 0;
    if (fused) {
      std::int64_t rows = 0;  // of the row statistic, the last output
      for (const TensorId t : graph_.outputs(f))
        if (!graph_.tensor(t).control) rows = elements_of(graph_.tensor(t).size);
      h.width = rows == 0 ? 0 : y / rows;
      scores = flops / (4 * h.width + 5);
      h.length = rows == 0 ? 0 : scores / rows;
    } else {
      scores = elements_of(graph_.op(f).temporary) / 2;
      h.width = scores == 0 ? 0 : (flops / scores - 5) / 4;
      h.length = y == 0 ? 0 : scores * h.width / y;
    }
    if (h.width > 0 && h.length > 0) h.count = y / (h.width * h.length);
    if (scores == 0 || h.count * h.length * h.width != y || h.scores() != scores ||
        flops != scores * (4 * h.width + 5))
      throw unknown(f, "its derived shape is not integral");
    return h;
  }

  void add_attention(OpId v, OpId f, const Ends& waits) {
    const bool fused = graph_.kind(f) == "FusedAttention";
    const Heads h = heads_of(f, fused);
    // QK^T contracts d; PV and its kin contract l.
    const CoreOp to_scores{.count = h.count, .m = h.length, .k = h.width, .n = h.length};
    const CoreOp from_scores{.count = h.count, .m = h.length, .k = h.length, .n = h.width};
    const std::int64_t flops_per_element = v == f ? 4 : fused ? 10 : 8;
    const OpWork& kernel = graph_.kernels(v)[0];
    const std::int64_t rest = kernel.flops - flops_per_element * h.scores() * h.width;
    const std::int64_t operands = 4 * h.count * h.length * h.width * (v == f ? 1 : 2);
    const CoreOp softmax{
        .passes = std::max<std::int64_t>(1, rest / h.scores()),
        .elements = h.scores(),
        .words = std::max<std::int64_t>(0, elements_of(kernel.traffic) - operands)};
    if (v == f) {
      const std::uint32_t scores = add_task(to_scores, waits);
      ends_[v] = {add_task(from_scores, {add_task(softmax, {scores})})};
      return;
    }
    Ends ready = waits;
    if (fused) ready = {add_task(to_scores, waits)};
    const std::uint32_t of_values = add_task(from_scores, ready);
    const std::uint32_t of_scores = add_task(to_scores, ready);
    const std::uint32_t through = add_task(softmax, {of_scores});
    const std::uint32_t of_queries = add_task(from_scores, {through});
    const std::uint32_t of_keys = add_task(from_scores, {through});
    ends_[v] = {of_values, of_queries, of_keys};
    for (const OpWork& more : graph_.kernels(v).subspan(1))
      ends_[v] = {add_vector(v, more, ends_[v])};
  }

  const OpGraph& graph_;
  std::vector<CoreTask> tasks_;
  std::map<OpId, Ends>
      ends_;  // of each of `ops`: its last tasks, or those of its inputs if it has none
};

/// The longest path from each task to the end, its own time included. [tasks]
std::vector<Duration> upward_ranks(std::span<const PoolTask> tasks) {
  std::vector<Duration> rank(tasks.size(), Duration::zero());
  for (std::size_t i = tasks.size(); i-- > 0;) {
    rank[i] += tasks[i].time;
    for (const std::uint32_t before : tasks[i].after)
      rank[before] = std::max(rank[before], rank[i]);
  }
  return rank;
}

Duration traffic_time(std::span<const PoolTask> tasks, const AcceleratorRates& rates) {
  Bytes sum{};
  for (const PoolTask& task : tasks) sum += task.traffic;
  return Duration{static_cast<std::int64_t>(
      std::ceil(static_cast<double>(sum.count) / rates.memory.bytes_per_second * 1e9))};
}

}  // namespace

CoreCost core_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates) {
  CoreCost cost = op.is_gemm() ? gemm_cost(op, a, rates) : vector_cost(op, a, rates);
  const double seconds =
      std::max(static_cast<double>(cost.cycles) / rates.clock,
               static_cast<double>(cost.traffic.count) / rates.memory.bytes_per_second);
  cost.time = Duration{static_cast<std::int64_t>(std::ceil(seconds * 1e9))};
  return cost;
}

std::vector<CoreTask> core_tasks(const OpGraph& graph, std::span<const OpId> ops) {
  return CoreTasks(graph, ops).result();
}

std::vector<PoolTask> pool_tasks(std::span<const CoreTask> layer, const Accelerator& a,
                                 const AcceleratorRates& rates) {
  std::vector<PoolTask> tasks;
  tasks.reserve(layer.size());
  for (const CoreTask& task : layer) {
    const CoreCost cost = core_cost(task.op, a, rates);
    tasks.push_back({.tensor = task.op.is_gemm(),
                     .cores = cost.cores,
                     .time = cost.time,
                     .traffic = cost.traffic,
                     .after = task.after});
  }
  return tasks;
}

LayerSchedule list_schedule(std::span<const PoolTask> tasks, const Accelerator& a,
                            const AcceleratorRates& rates) {
  const std::vector<Duration> rank = upward_ranks(tasks);
  std::vector<std::uint32_t> waiting(tasks.size());
  std::iota(waiting.begin(), waiting.end(), 0U);
  std::ranges::stable_sort(waiting, std::greater<>(), [&](std::uint32_t i) { return rank[i]; });
  LayerSchedule schedule{.start = std::vector<Duration>(tasks.size())};
  std::vector<Duration> end(tasks.size(), Duration::max());
  std::vector<std::uint32_t> running;
  std::array<std::int64_t, 2> free{a.vector_cores, a.tensor_cores};
  Duration now{};
  while (!waiting.empty() || !running.empty()) {
    std::erase_if(waiting, [&](std::uint32_t i) {
      const PoolTask& task = tasks[i];
      std::int64_t& cores = free[task.tensor ? 1 : 0];
      const bool ready = std::ranges::all_of(task.after, [&](auto b) { return end[b] <= now; });
      if (!ready || task.cores > cores) return false;
      cores -= task.cores;
      schedule.start[i] = now;
      end[i] = now + task.time;
      running.push_back(i);
      return true;
    });
    Duration next = Duration::max();
    for (const std::uint32_t i : running) next = std::min(next, end[i]);
    now = next;
    std::erase_if(running, [&](std::uint32_t i) {
      if (end[i] > now) return false;
      free[tasks[i].tensor ? 1 : 0] += tasks[i].cores;
      return true;
    });
  }
  schedule.makespan = std::max(now, traffic_time(tasks, rates));
  return schedule;
}

Duration least_makespan(std::span<const PoolTask> tasks, const Accelerator& a,
                        const AcceleratorRates& rates) {
  Duration least = traffic_time(tasks, rates);
  for (const Duration rank : upward_ranks(tasks)) least = std::max(least, rank);
  std::array<double, 2> work{};
  for (const PoolTask& task : tasks)
    work[task.tensor ? 1 : 0] +=
        static_cast<double>(task.cores) * static_cast<double>(task.time.count());
  const std::array<std::int64_t, 2> cores{a.vector_cores, a.tensor_cores};
  for (std::size_t pool = 0; pool < 2; ++pool)
    least = std::max(
        least, Duration{static_cast<std::int64_t>(work[pool] / static_cast<double>(cores[pool]))});
  return least;
}

}  // namespace baechi
