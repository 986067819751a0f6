#include "scenarios/arena/duel.h"

#include <filesystem>

#include "placers/files/placement_file.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/report/html.h"
#include "sim/file_aside.h"
#include "sim/random.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t fewest_ops = 2, most_ops = 24, most_gpus = 4;
constexpr double failed_ratio = 10.0;

std::optional<Duration> step_of(const Problem& problem, const Placer& placer) {
  try {
    const StepResult step = simulate(problem, placer.place(problem, 1));
    if (step.oom) return std::nullopt;
    return step.makespan;
  } catch (const InfeasibleError&) {
    return std::nullopt;
  }
}

/// Draws instances and changes of them.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  DuelInstance fresh() {
    DuelInstance instance;
    const std::size_t n = 6 + random_.below(11);
    for (std::size_t v = 0; v < n; ++v) {
      DuelOp op{.compute = time(), .output = size(), .persistent = size()};
      for (std::size_t u = 0; u < v; ++u)
        if (random_.below(static_cast<std::uint32_t>(v)) < 2) op.reads.push_back(u);
      instance.ops.push_back(std::move(op));
    }
    instance.speed.assign(2 + random_.below(3), 1.0);
    instance.memory = {std::int64_t{4'000'000} << random_.below(6)};
    instance.link = {.bandwidth = Bandwidth{1e9 * static_cast<double>(1U << random_.below(6))},
                     .latency = 10us};
    return instance;
  }

  void change(DuelInstance& instance) {
    const std::size_t v = any(instance.ops.size());
    DuelOp& op = instance.ops[v];
    switch (random_.below(10)) {
      case 0:
      case 1:
        op.compute = random_.below(3) == 0 ? time() : Duration{scaled(op.compute.count())};
        break;
      case 2:
        op.output = random_.below(3) == 0 ? size() : Bytes{scaled(op.output.count)};
        break;
      case 3:
        op.persistent = random_.below(3) == 0 ? size() : Bytes{scaled(op.persistent.count)};
        break;
      case 4:
      case 5:
        if (v > 0) toggle(op.reads, any(v));
        break;
      case 6:
        if (instance.ops.size() < most_ops) add_op(instance);
        break;
      case 7:
        instance.memory = {scaled(instance.memory.count)};
        break;
      case 8:
        if (random_.below(2) == 0)
          instance.link.bandwidth.bytes_per_second =
              std::clamp(instance.link.bandwidth.bytes_per_second * factor(), 1e8, 1e11);
        else
          instance.link.latency = Duration{scaled(instance.link.latency.count())};
        break;
      default:
        change_devices(instance);
    }
  }

  double uniform() { return random_.uniform(); }

 private:
  std::size_t any(std::size_t n) { return random_.below(static_cast<std::uint32_t>(n)); }
  double factor() { return 0.5 + 1.5 * random_.uniform(); }
  /// Multiplied by 0.5 to 2, clamped to 1 to 10^11.
  std::int64_t scaled(std::int64_t x) {
    return static_cast<std::int64_t>(std::clamp(static_cast<double>(x) * factor(), 1.0, 1e11));
  }
  Duration time() { return Duration{1000 * (1 + random_.below(2000))}; }
  Bytes size() { return {1000 * (1 + random_.below(4000))}; }

  static void toggle(std::vector<std::size_t>& reads, std::size_t u) {
    const auto at = std::ranges::lower_bound(reads, u);
    if (at != reads.end() && *at == u)
      reads.erase(at);
    else
      reads.insert(at, u);
  }
  void add_op(DuelInstance& instance) {
    DuelOp op{.compute = time(), .output = size(), .persistent = size()};
    toggle(op.reads, any(instance.ops.size()));
    instance.ops.push_back(std::move(op));
  }
  void change_devices(DuelInstance& instance) {
    std::vector<double>& speed = instance.speed;
    switch (random_.below(3)) {
      case 0:
        if (speed.size() < most_gpus) speed.push_back(1.0);
        break;
      case 1:
        if (speed.size() > 2) speed.pop_back();
        break;
      default:
        speed[any(speed.size())] = 0.25 * static_cast<double>(1 + random_.below(12));
    }
  }

  Random random_;
};

/// `instance` without op `v`, whose readers read its inputs instead.
DuelInstance without_op(const DuelInstance& instance, std::size_t v) {
  DuelInstance less = instance;
  const std::vector<std::size_t> inherited = instance.ops[v].reads;
  less.ops.erase(less.ops.begin() + static_cast<std::ptrdiff_t>(v));
  for (std::size_t w = v; w < less.ops.size(); ++w) {
    std::vector<std::size_t>& reads = less.ops[w].reads;
    if (std::erase(reads, v) > 0) reads.insert(reads.end(), inherited.begin(), inherited.end());
    for (std::size_t& u : reads) u -= u > v ? 1U : 0U;
    std::ranges::sort(reads);
    const auto twice = std::ranges::unique(reads);
    reads.erase(twice.begin(), twice.end());
  }
  return less;
}

/// Rounds to two digits.
std::int64_t two_digits(std::int64_t x) {
  std::int64_t unit = 1;
  while (x / unit >= 100) unit *= 10;
  return (x + unit / 2) / unit * unit;
}

/// The simpler instances that are one change away, the largest changes first.
std::vector<DuelInstance> simpler(const DuelInstance& from) {
  std::vector<DuelInstance> all;
  if (from.ops.size() > fewest_ops)
    for (std::size_t v = from.ops.size(); v-- > 0;) all.push_back(without_op(from, v));
  const auto with = [&](auto change) {
    DuelInstance changed = from;
    change(changed);
    all.push_back(std::move(changed));
  };
  if (from.speed.size() > 1) with([](DuelInstance& i) { i.speed.pop_back(); });
  for (std::size_t d = 0; d < from.speed.size(); ++d)
    if (from.speed[d] != 1.0) with([&](DuelInstance& i) { i.speed[d] = 1.0; });
  for (std::size_t v = 0; v < from.ops.size(); ++v) {
    const DuelOp& op = from.ops[v];
    for (std::size_t r = op.reads.size(); r-- > 0;)
      with([&](DuelInstance& i) {
        i.ops[v].reads.erase(i.ops[v].reads.begin() + static_cast<std::ptrdiff_t>(r));
      });
    if (op.persistent > Bytes{}) with([&](DuelInstance& i) { i.ops[v].persistent = {}; });
    if (op.compute.count() != two_digits(op.compute.count()))
      with([&](DuelInstance& i) { i.ops[v].compute = Duration{two_digits(op.compute.count())}; });
    if (op.output.count != two_digits(op.output.count))
      with([&](DuelInstance& i) { i.ops[v].output = {two_digits(op.output.count)}; });
    if (op.persistent.count != two_digits(op.persistent.count))
      with([&](DuelInstance& i) { i.ops[v].persistent = {two_digits(op.persistent.count)}; });
  }
  if (from.memory.count != two_digits(from.memory.count))
    with([&](DuelInstance& i) { i.memory = {two_digits(from.memory.count)}; });
  return all;
}

namespace fs = std::filesystem;

constexpr std::string_view program = "exec:";

DuelStep duel_step(const Problem& problem, const std::string& name, const Placer& placer) {
  DuelStep step{.placer = name};
  try {
    step.placement = placer.place(problem, 1);
    std::vector<StepObserver*> observers{&step.timeline};
    step.result = simulate(problem, *step.placement, observers);
    if (step.result.oom) step.why = "out of memory";
  } catch (const InfeasibleError& e) {
    step.why = e.what();
  }
  return step;
}

/// An entry of a scenario's list `placers`.
std::string placer_line(const std::string& text) {
  if (text.starts_with(program)) {
    const Choice choice = parse_choice(text, "placer");
    return fmt::format("  - {{exec: {{path: '{}'}}}}\n",
                       fs::absolute(choice.name.substr(program.size())).string());
  }
  const char* quote = text.find(':') == std::string::npos ? "" : "'";
  return fmt::format("  - {0}{1}{0}\n", quote, text);
}

std::string duel_scenario(const DuelNames& names, const DuelInstance& instance, double ratio) {
  std::string text = fmt::format(
      "# {0} takes {2:.4f} x the step of {1} here. Found by\n# baechi arena duel {0} {1} "
      "--evaluations {3} --seed {4}{5}\n"
      "name: duel\ngraph: {{import: duel.trace.json}}\ncluster:\n  devices:\n",
      names.loser, names.winner, ratio, names.options.evaluations, names.options.seed,
      names.options.failures ? " --failures" : "");
  for (const double speed : instance.speed)
    text += fmt::format("    - {{memory: {} B, speed: {}}}\n", instance.memory.count, speed);
  text += fmt::format("  link: {{bandwidth: {} B/s, latency: {} ns}}\nplacers:\n",
                      static_cast<std::int64_t>(instance.link.bandwidth.bytes_per_second),
                      instance.link.latency.count());
  return text + placer_line(names.loser) + placer_line(names.winner) + "seeds: [1]\n";
}

}  // namespace

OpGraph DuelInstance::graph() const {
  OpGraphBuilder builder;
  std::vector<TensorId> outputs;
  for (std::size_t v = 0; v < ops.size(); ++v) {
    const std::string name = fmt::format("op{}", v);
    const OpId id =
        builder.add_op({.name = name, .compute = ops[v].compute, .persistent = ops[v].persistent});
    outputs.push_back(builder.add_tensor(id, ops[v].output));
    for (const std::size_t u : ops[v].reads) builder.add_edge(outputs[u], id);
  }
  return std::move(builder).build();
}

Cluster DuelInstance::cluster() const {
  IdVector<DeviceId, Device> devices;
  for (const double s : speed)
    devices.push_back(
        {.name = fmt::format("gpu{}", devices.size()), .kind = {}, .memory = memory, .speed = s});
  return Cluster::uniform(devices, link);
}

double DuelSteps::ratio(bool failures) const {
  if (!winner) return 0.0;
  if (!loser) return failures ? failed_ratio : 0.0;
  return static_cast<double>(loser->count()) /
         static_cast<double>(std::max<std::int64_t>(1, winner->count()));
}

DuelSteps duel_steps(const DuelInstance& instance, const Placer& loser, const Placer& winner) {
  const OpGraph graph = instance.graph();
  const Cluster cluster = instance.cluster();
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  return {.loser = step_of(problem, loser), .winner = step_of(problem, winner)};
}

DuelResult duel(const Placer& loser, const Placer& winner, const DuelOptions& options,
                const Watch& watch) {
  DuelResult result;
  std::atomic<std::size_t> done = 0;
  auto watched = begin_watch(watch, done, options.evaluations);
  const auto ratio = [&](const DuelInstance& instance) {
    ++result.evaluations;
    return duel_steps(instance, loser, winner).ratio(options.failures);
  };
  const auto stopped = [&] { return options.stop != nullptr && *options.stop; };
  constexpr std::size_t chains = 4;
  for (std::size_t chain = 0; chain < chains; ++chain) {
    Mutator mutator(options.seed * chains + chain);
    DuelInstance at = mutator.fresh();
    double height = ratio(at);
    const std::size_t steps = std::max<std::size_t>(options.evaluations / chains, 2) - 1;
    for (std::size_t i = 0; i < steps && !stopped(); ++i) {
      if (height > result.found_ratio) {
        result.found = at;
        result.found_ratio = height;
      }
      done = result.evaluations;
      DuelInstance next = at;
      for (std::size_t k = 1 + (mutator.uniform() < 0.3 ? 2U : 0U); k > 0; --k)
        mutator.change(next);
      const double there = ratio(next);
      const double heat = 0.3 * std::pow(0.02, static_cast<double>(i) / static_cast<double>(steps));
      if (there < height && mutator.uniform() >= std::exp((there - height) / (heat * height)))
        continue;
      at = std::move(next);
      height = there;
    }
  }
  watched.reset();
  result.small = result.found;
  result.small_ratio = result.found_ratio;
  const double enough = 1.0 + 0.99 * (result.found_ratio - 1.0);
  for (bool smaller = result.found_ratio > 1.0; smaller;) {
    smaller = false;
    for (DuelInstance& candidate : simpler(result.small)) {
      if (stopped()) break;
      const double there = ratio(candidate);
      if (there < enough) continue;
      result.small = std::move(candidate);
      result.small_ratio = there;
      smaller = true;
      break;
    }
  }
  return result;
}

std::string DuelStep::text() const { return why.empty() ? to_text(result.makespan) : why; }

std::array<DuelStep, 2> duel_steps(const DuelNames& names, const Placer& loser,
                                   const Placer& winner, const Problem& problem) {
  return {duel_step(problem, names.loser, loser), duel_step(problem, names.winner, winner)};
}

void write_duel(const std::string& folder, const DuelNames& names, const DuelResult& result,
                const Problem& problem, const std::array<DuelStep, 2>& steps) {
  fs::create_directories(folder);
  const auto file = [&](std::string_view name) { return fmt::format("{}/{}", folder, name); };
  write_trace({.graph = problem.graph,
               .name = "duel",
               .source = fmt::format("baechi arena duel {} {}", names.loser, names.winner)},
              file("duel.trace.json"));
  write_aside(file("duel.yaml"), duel_scenario(names, result.small, result.small_ratio));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DuelStep& step = steps[i];
    if (!step.placement) continue;
    const char* role = i == 0 ? "a" : "b";
    write_aside(file(fmt::format("{}.csv", role)),
                step_csv(picture(problem, step.timeline, step.result)));
    write_placement(file(fmt::format("{}.placement.json", role)), *step.placement, problem.graph,
                    "duel", problem.cluster.num_devices());
  }
}

}  // namespace baechi
