#include "placers/solver/linear_program.h"
#include "sim/accelerator/accelerator.h"
#include "sim/random.h"
#include "tests/prelude.h"

namespace {

using solver::LinearProgram;
using Term = LinearProgram::Term;
constexpr double infinity = LinearProgram::infinity;

/// Whether one task waits for another, directly or not. [tasks][tasks]
std::vector<std::vector<char>> order_of(std::span<const PoolTask> tasks) {
  std::vector<std::vector<char>> before(tasks.size(), std::vector<char>(tasks.size(), 0));
  for (std::size_t j = 0; j < tasks.size(); ++j)
    for (const std::uint32_t i : tasks[j].after) {
      before[i][j] = 1;
      for (std::size_t k = 0; k < tasks.size(); ++k)
        if (before[k][i] != 0) before[k][j] = 1;
    }
  return before;
}

/// Times are in thousandths of the horizon.
class LayerProgram {
 public:
  LayerProgram(std::span<const PoolTask> tasks, const Accelerator& a, Duration horizon)
      : tasks_(tasks),
        cores_{a.vector_cores, a.tensor_cores},
        unit_(static_cast<double>(horizon.count()) / most),
        before_(order_of(tasks)) {}

  solver::MixedProgram built() && {
    end_ = lp_.add_column(0.0, most);
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      start_.push_back(lp_.add_column(0.0, most - time(i)));
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      row(time(i), {{end_, 1.0}, {start_[i], -1.0}}, infinity);
      for (const std::uint32_t b : tasks_[i].after)
        row(time(b), {{start_[i], 1.0}, {start_[b], -1.0}}, infinity);
    }
    for (const bool pool : {false, true}) add_pool(pool);
    lp_.objectives.emplace_back(lp_.num_columns(), 0.0);
    lp_.objectives.front()[end_] = 1.0;
    program_.relaxation = std::move(lp_);
    return std::move(program_);
  }

 private:
  static constexpr double most = 1000.0;
  double time(std::size_t i) const { return static_cast<double>(tasks_[i].time.count()) / unit_; }
  double cores(std::size_t i) const { return static_cast<double>(tasks_[i].cores); }
  void row(double lower, std::initializer_list<Term> terms, double upper) {
    lp_.add_row(lower, std::vector<Term>(terms), upper);
  }
  void sum(const std::vector<Term>& terms, double value) { lp_.add_row(value, terms, value); }

  void add_pool(bool tensor) {
    const auto pool = static_cast<double>(cores_[tensor ? 1 : 0]);
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (tasks_[i].tensor == tensor) members.push_back(i);
    std::vector<std::vector<Term>> in(tasks_.size()), out(tasks_.size());
    std::vector<Term> from_pool;
    for (const std::size_t i : members) {
      const std::uint32_t first = lp_.add_column(0.0, cores(i)),
                          last = lp_.add_column(0.0, cores(i));
      from_pool.push_back({first, 1.0});
      in[i].push_back({first, 1.0});
      out[i].push_back({last, 1.0});
    }
    for (std::size_t x = 0; x < members.size(); ++x)
      for (std::size_t y = x + 1; y < members.size(); ++y)
        add_pair(members[x], members[y], pool, in, out);
    if (!from_pool.empty()) lp_.add_row(0.0, from_pool, pool);
    for (const std::size_t i : members) {
      sum(in[i], cores(i));
      sum(out[i], cores(i));
    }
  }

  /// Cores may be passed from one task to the other only if it ends first.
  void add_pair(std::size_t i, std::size_t j, double pool, std::vector<std::vector<Term>>& in,
                std::vector<std::vector<Term>>& out) {
    const auto hand_on = [&](std::size_t from, std::size_t to, std::optional<std::uint32_t> first) {
      const double cores_handed = std::min(cores(from), cores(to));
      const std::uint32_t flow = lp_.add_column(0.0, cores_handed);
      if (first) row(-infinity, {{flow, 1.0}, {*first, -cores_handed}}, 0.0);
      out[from].push_back({flow, 1.0});
      in[to].push_back({flow, 1.0});
    };
    if (before_[i][j] != 0) return hand_on(i, j, {});
    if (before_[j][i] != 0) return hand_on(j, i, {});
    std::vector<Term> either;
    for (const auto& [from, to] : {std::pair{i, j}, std::pair{j, i}}) {
      const std::uint32_t first = lp_.add_column(0.0, 1.0);
      program_.whole.push_back(first);
      either.push_back({first, 1.0});
      row(time(from) - most, {{start_[to], 1.0}, {start_[from], -1.0}, {first, -most}}, infinity);
      hand_on(from, to, first);
    }
    lp_.add_row(cores(i) + cores(j) > pool ? 1.0 : 0.0, either, 1.0);
  }

  std::span<const PoolTask> tasks_;
  std::array<std::int64_t, 2> cores_;
  double unit_;
  std::vector<std::vector<char>> before_;
  LinearProgram lp_;
  solver::MixedProgram program_;
  std::uint32_t end_ = 0;
  std::vector<std::uint32_t> start_;
};

/// The schedule of the program, at most as long as list_schedule()'s: it shows the loss of the list
/// schedule.
struct ShortestSchedule {
  Duration makespan{};
  bool proved = false;  ///< no schedule is shorter
};

/// Columns: the start of each task; for each unordered pair of tasks of a pool, whether the one
/// ends before the other begins; the cores that a task passes to a later one. A task's cores come
/// from the pool or from tasks that have ended. Times to a nanosecond. For small layers: the
/// columns grow with the square of the tasks.
/// columns grow with the square of the tasks.
/// Source: Artigues, Michelon, Reusser, "Insertion techniques for static and dynamic
/// resource-constrained project scheduling", EJOR 2003, the flow of resources.
ShortestSchedule shortest_schedule(std::span<const PoolTask> tasks, const Accelerator& a,
                                   const AcceleratorRates& rates,
                                   const solver::MixedLimits& limits) {
  const Duration listed = list_schedule(tasks, a, rates).makespan;
  const Duration least = least_makespan(tasks, a, rates);
  if (listed == least) return {.makespan = listed, .proved = true};
  const solver::MixedProgram program = LayerProgram(tasks, a, listed).built();
  const solver::MixedOptimum optimum = solver::solve(program, limits);
  if (optimum.x.empty()) return {.makespan = listed, .proved = optimum.finished()};
  const double unit = static_cast<double>(listed.count()) / 1000.0;
  const Duration found{static_cast<std::int64_t>(std::llround(optimum.x.front() * unit))};
  return {.makespan = std::clamp(found, least, listed), .proved = optimum.finished()};
}

constexpr AcceleratorRates rates{.clock = 1e9, .memory = {1e15}, .word = Bytes{2}};
constexpr solver::MixedLimits limits{.nodes = 20'000, .iterations = 2'000'000, .terms = 100'000};
constexpr Accelerator two_cores{.tensor_cores = 2, .vector_cores = 2, .width = 2, .depth = 2};

}  // namespace

TEST_SUITE_BEGIN("layer programs");
TEST_CASE("the program is shorter where the longest path first is not optimal") {
  // f(4, 2 cores); b(3, 1 core) -> c(1, vector); a(3, 1 core). Longest paths: 4, 4, 3.
  const std::vector<std::uint32_t> after_b{1};
  const std::vector<PoolTask> tasks{{.tensor = true, .cores = 2, .time = 4ns},
                                    {.tensor = true, .cores = 1, .time = 3ns},
                                    {.tensor = false, .cores = 1, .time = 1ns, .after = after_b},
                                    {.tensor = true, .cores = 1, .time = 3ns}};
  // f 0-4, b and a 4-7, c 7-8. Better: b and a 0-3, f 3-7, c 3-4.
  CHECK(list_schedule(tasks, two_cores, rates).makespan == 8ns);
  const ShortestSchedule shortest = shortest_schedule(tasks, two_cores, rates, limits);
  CHECK(shortest.makespan == 7ns);
  CHECK(shortest.proved);
}

TEST_CASE("cores of a pool are never used twice") {
  // Three tasks of one core on two cores: two rounds, although each pair may run in parallel.
  const PoolTask one{.tensor = true, .cores = 1, .time = 5ns};
  const PoolTask two{.tensor = true, .cores = 2, .time = 5ns};
  CHECK(shortest_schedule(std::vector{one, one, one}, two_cores, rates, limits).makespan == 10ns);
  CHECK(shortest_schedule(std::vector{one, two, one}, two_cores, rates, limits).makespan == 10ns);
}

TEST_CASE("the list schedule of small random layers is within a third of the shortest") {
  Random random(7);
  double sum = 0.0, worst = 1.0;
  constexpr int layers = 30;
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<std::vector<std::uint32_t>> after(8);
    std::vector<PoolTask> tasks;
    for (std::uint32_t i = 0; i < after.size(); ++i) {
      for (std::uint32_t b = 0; b < i; ++b)
        if (random.below(4) == 0) after[i].push_back(b);
      tasks.push_back({.tensor = random.below(2) == 0,
                       .cores = static_cast<std::int64_t>(1 + random.below(2)),
                       .time = Duration{static_cast<std::int64_t>(1 + random.below(20))},
                       .after = after[i]});
    }
    const Duration listed = list_schedule(tasks, two_cores, rates).makespan;
    const ShortestSchedule shortest = shortest_schedule(tasks, two_cores, rates, limits);
    CAPTURE(layer);
    CHECK(shortest.proved);
    CHECK(shortest.makespan <= listed);
    CHECK(shortest.makespan >= least_makespan(tasks, two_cores, rates));
    const double gap = to_us(listed) / to_us(shortest.makespan);
    sum += gap;
    worst = std::max(worst, gap);
  }
  MESSAGE("list schedule over shortest: mean ", sum / layers, ", worst ", worst);
  CHECK(sum / layers < 1.05);
  CHECK(worst < 1.34);
}
