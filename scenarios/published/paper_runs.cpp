#include <cmath>

#include "scenarios/published/paper.h"
#include "scenarios/run/runner.h"
#include "scenarios/studies/codesign/codesign.h"
#include "scenarios/studies/serving/packrat.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

double seconds(Duration time) { return to_us(time) / 1e6; }

serving::LatencyTable latencies_of(const ServingRow& row) {
  auto profiles = serving::read_latency_profiles(read_file(row.file), row.file);
  for (const auto& [column, word] : row.where)
    std::erase_if(profiles, [&](const serving::LatencyProfile& p) {
      return std::ranges::count(p.of, std::pair(column, word)) == 0;
    });
  if (profiles.size() != 1)
    throw InputError(
        fmt::format("{}: {} profiles are as 'where' says, not one", row.file, profiles.size()));
  return std::move(profiles.front().latency);
}

/// Latencies in seconds. Nothing if a configuration is not possible. Throws InputError if the file
/// is wrong, or does not have exactly one such profile.
std::optional<double> serving_figure(const ServingRow& row, Metric metric,
                                     const std::vector<std::int64_t>& batches) {
  const serving::LatencyTable latencies = latencies_of(row);
  double sum = 0.0;
  for (const std::int64_t batch : batches) {
    const auto one = latencies.find({row.threads, batch});
    const auto best = serving::best_serving(latencies, row.threads, batch, row.interference);
    if (!best || one == latencies.end()) return std::nullopt;
    const double alone = seconds(one->second), shared = seconds(best->latency);
    sum += metric == Metric::one_instance       ? alone
           : metric == Metric::serving_latency  ? shared
           : metric == Metric::serving_speed_up ? alone / shared
                                                : static_cast<double>(best->count());
  }
  return sum / static_cast<double>(batches.size());
}

/// Two numbers of a paper whose order means something differ by more than this share.
constexpr double tie = 0.01;

/// One scenario under its sets, and which of its placers are of interest.
struct Job {
  std::string scenario;
  std::vector<std::string> sets;
  std::set<std::string> placers{};
  std::string objective{};  ///< also what the placements are worth by it; "" for none
};

/// Adds what the row's placement is worth to its facts. A run that ends out of memory has a value,
/// too, because objectives count memory in their own way.
void add_score(const Sweep& sweep, RunResult& row, const std::string& objective) {
  if (row.status != Status::ok && row.status != Status::oom) return;
  const ExperimentStep step = step_of(sweep, row);
  const Score score =
      make_objective(objective, Options(objective))->score(step.problem(), step.placement());
  if (score.deadlock) return;
  row.facts["objective_us"] = to_us(score.value);
  row.facts["objective_feasible"] = score.feasible() ? 1.0 : 0.0;
}

/// The results of each job, a list of rows.
std::vector<std::vector<RunResult>> run_jobs(const std::vector<Job>& jobs, std::size_t threads,
                                             const Watch& watch) {
  if (jobs.empty()) return {};
  Mistakes mistakes;
  std::vector<ScenarioFile> files;
  files.reserve(jobs.size());
  for (const Job& job : jobs) files.push_back(load_scenario(job.scenario, job.sets, mistakes));
  mistakes.throw_if_any();
  const Sweep sweep = make_sweep(std::move(files), threads, mistakes);
  mistakes.throw_if_any();
  std::vector<std::size_t> ids;
  for (std::size_t id = 0; id < sweep.num_runs(); ++id) {
    const Run r = sweep.run(id);
    if (jobs[r.scenario].placers.contains(r.placer.label) && r.measure.name == default_measure)
      ids.push_back(id);
  }
  std::atomic<std::size_t> done{0};
  const auto watching = watch(done, ids.size());
  std::vector<std::vector<RunResult>> rows(jobs.size());
  for (RunResult& row : run(sweep, ids, {.threads = threads, .done = &done}).rows) {
    if (const auto rate = throughput(sweep.header(), row)) row.facts["throughput"] = *rate;
    if (row.status == Status::error)
      throw std::runtime_error(
          fmt::format("{}: {}: {}", jobs[row.scenario].scenario, row.placer, row.detail));
    if (const std::string& objective = jobs[row.scenario].objective; !objective.empty())
      add_score(sweep, row, objective);
    rows[row.scenario].push_back(std::move(row));
  }
  return rows;
}

std::map<std::string, double> calibrate(const Paper& paper, std::size_t threads,
                                        const Watch& watch) {
  std::vector<Job> jobs;
  for (const PaperCalibration& c : paper.calibrations)
    jobs.push_back({c.scenario, c.sets, {c.placer}});
  const auto rows = run_jobs(jobs, threads, watch);
  std::map<std::string, double> speeds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PaperCalibration& c = paper.calibrations[i];
    if (rows[i].empty())
      throw InputError(
          fmt::format("calibration {}: {} has no placer '{}'", c.name, c.scenario, c.placer));
    const RunResult& row = rows[i].front();
    if (!row.value) throw std::runtime_error(fmt::format("calibration {}: {}", c.name, row.detail));
    speeds[c.name] = to_us(*row.value) / to_us(c.step_time);
  }
  return speeds;
}

/// The jobs of a cell: its own, what it is compared with (for a slowdown the same with a true
/// profile, for what is saved the row's base), and the same at neighbouring speeds.
struct CellJobs {
  std::optional<std::size_t> own, base;
  std::vector<std::size_t> neighbours{};
};

/// The job of those scenario and sets among `jobs`, made if need be, with `placer` in it.
std::size_t job_of(const PaperRow& row, std::vector<std::string> sets, const std::string& placer,
                   std::vector<Job>& jobs) {
  auto it = std::ranges::find_if(
      jobs, [&](const Job& j) { return j.scenario == row.scenario && j.sets == sets; });
  if (it == jobs.end()) it = jobs.insert(it, {row.scenario, std::move(sets), {}});
  it->placers.insert(placer);
  return static_cast<std::size_t>(it - jobs.begin());
}

std::vector<std::string> with(const PaperRow& row, const PaperColumn& column) {
  std::vector<std::string> sets = row.sets;
  sets.insert(sets.end(), column.sets.begin(), column.sets.end());
  return sets;
}

/// [tables][rows][columns]
using AllCellJobs = std::vector<std::vector<std::vector<CellJobs>>>;

AllCellJobs all_jobs(const Paper& paper, const std::map<std::string, double>& speeds,
                     std::vector<Job>& jobs) {
  AllCellJobs all;
  for (const PaperTable& table : paper.tables) {
    auto& rows = all.emplace_back();
    for (const PaperRow& row : table.rows) {
      auto& cells = rows.emplace_back(table.columns.size());
      if (row.scenario.empty()) continue;
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const PaperColumn& column = table.columns[c];
        if (is_codesign(column.metric)) continue;
        std::vector<std::string> sets = with(row, column);
        const auto at_speed = [&](double factor) {
          auto other = sets;
          other.push_back(
              fmt::format("cluster.devices.speed={}", factor * speeds.at(row.calibration)));
          return other;
        };
        if (!row.calibration.empty() && column.metric == Metric::step_time) {
          for (const double factor : table.neighbours)
            cells[c].neighbours.push_back(job_of(row, at_speed(factor), column.placer, jobs));
        }
        if (!row.calibration.empty()) sets = at_speed(1.0);
        cells[c].own = job_of(row, sets, column.placer, jobs);
        if (const auto objective = objective_of(column.metric); !objective.empty())
          jobs[*cells[c].own].objective = objective;
        if (column.metric == Metric::saved)
          cells[c].base = job_of(row, row.base, column.placer, jobs);
        if (column.metric != Metric::slowdown) continue;
        sets.insert(sets.end(), {"profile.error=0", "seeds=[0]"});
        cells[c].base = job_of(row, std::move(sets), column.placer, jobs);
      }
    }
  }
  return all;
}

/// The runs of `placer`, in the order of their seeds.
std::vector<const RunResult*> runs_of(const std::string& placer,
                                      const std::vector<RunResult>& rows) {
  std::vector<const RunResult*> found;
  for (const RunResult& row : rows)
    if (row.placer == placer) found.push_back(&row);
  return found;
}

/// Bytes of the device with the `rank`-th highest peak, from 0.
double peak(const RunResult& row, std::size_t rank) {
  std::vector<Bytes> peaks = row.device_peaks;
  std::ranges::sort(peaks, std::greater<>());
  return static_cast<double>(peaks.at(rank).count);
}

double one_number(const PaperColumn& column, const PaperTable& table, const RunResult& row) {
  const auto wall_seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  const auto fact = [&](const char* name) { return row.facts.at(name); };
  const Metric m = column.metric;
  if (m == Metric::placed_ops) return fact("placed_ops");
  if (m == Metric::throughput) return fact("throughput");
  if (m == Metric::flops_utilisation) return *row.utilisation->flops_of_step;
  if (m == Metric::busy) return *row.utilisation->busy;
  return (m == Metric::placing_time     ? wall_seconds(row.placing)
          : m == Metric::processor_time ? wall_seconds(row.placing_processor)
          : m == Metric::peak_memory    ? peak(row, column.rank)
          : !objective_of(m).empty()    ? fact("objective_us") / 1e6
                                        : to_us(*row.value) / 1e6) /
         table.unit;
}

/// The least, mean or largest number, as the column asks.
double of_seeds(const PaperColumn& column, const std::vector<double>& numbers) {
  if (column.of == "min") return std::ranges::min(numbers);
  if (column.of == "max") return std::ranges::max(numbers);
  double sum = 0.0;
  for (const double x : numbers) sum += x;
  return sum / static_cast<double>(numbers.size());
}

/// By an objective: nothing where a seed has no placement.
std::optional<PaperValue> worth(const PaperColumn& column, const PaperTable& table,
                                const std::vector<const RunResult*>& runs) {
  PaperValue value;
  std::vector<double> numbers;
  for (const RunResult* run : runs) {
    if (!run->facts.contains("objective_us")) return std::nullopt;
    const auto fact = [&](const char* name, double otherwise) {
      const auto it = run->facts.find(name);
      return it == run->facts.end() ? otherwise : it->second;
    };
    numbers.push_back(one_number(column, table, *run));
    value.over |= fact("objective_feasible", 1.0) == 0.0;
    value.unfinished |= fact("gap", fact("gap_in_parts", 0.0)) > 0.0 || fact("optimal", 1.0) == 0.0;
  }
  value.number = of_seeds(column, numbers);
  return value;
}

/// The fact that a column shows, whatever the step would do; "" if it shows none.
std::string fact_of(const PaperColumn& column) {
  if (column.metric == Metric::time_per_sample) return "time_per_sample_us";
  if (column.metric == Metric::simulated_sample) return "simulated_per_sample_us";
  return column.fact;
}

/// Whether the run says what the column asks: a graph need not state its work or its batch.
bool is_known(Metric metric, const RunResult& row) {
  if (metric == Metric::throughput) return row.facts.contains("throughput");
  if (metric == Metric::flops_utilisation)
    return row.utilisation && row.utilisation->flops_of_step.has_value();
  if (metric == Metric::busy) return row.utilisation && row.utilisation->busy.has_value();
  return true;
}

std::optional<PaperValue> value_of(const PaperColumn& column, const PaperTable& table,
                                   const CellJobs& jobs,
                                   const std::vector<std::vector<RunResult>>& rows) {
  const auto runs = runs_of(column.placer, rows[*jobs.own]);
  if (runs.empty()) return std::nullopt;
  if (!objective_of(column.metric).empty()) return worth(column, table, runs);
  if (const std::string name = fact_of(column); !name.empty()) {
    const auto fact = runs.front()->facts.find(name);
    if (fact == runs.front()->facts.end()) return PaperValue{.oom = true};
    return PaperValue{.number = column.metric == Metric::fact ? fact->second
                                                              : fact->second / 1e6 / table.unit};
  }
  double base = 1.0;
  if (jobs.base) {
    const auto known = runs_of(column.placer, rows[*jobs.base]);
    if (known.front()->status != Status::ok) return std::nullopt;
    base = to_us(*known.front()->value) / 1e6;
  }
  std::vector<double> numbers;
  for (const RunResult* run : runs) {
    // Whoever only asks how long placing took does not ask whether the step then fits.
    const bool placed = run->status == Status::oom && is_time_of_placing(column.metric);
    if (run->status != Status::ok && !placed) return PaperValue{.oom = true};
    if (!is_known(column.metric, *run)) return std::nullopt;
    double x = one_number(column, table, *run) / base;
    if (column.metric == Metric::saved) x = 1.0 - x;
    numbers.push_back(x);
  }
  return PaperValue{.number = of_seeds(column, numbers)};
}

/// Searches for architectures, by scenario and sets: columns that differ in their metric share one.
using Searches = std::map<std::pair<std::string, std::vector<std::string>>, CodesignResult>;

Searches all_searches(const Paper& paper, const Watch& watch) {
  Searches searches;
  for (const PaperTable& table : paper.tables)
    for (const PaperRow& row : table.rows)
      for (const PaperColumn& column : table.columns) {
        if (!is_codesign(column.metric) || row.scenario.empty()) continue;
        const std::vector<std::string> sets = with(row, column);
        if (!searches.contains({row.scenario, sets}))
          searches[{row.scenario, sets}] = codesign_of(load_scenario(row.scenario, sets), watch);
      }
  return searches;
}

std::optional<PaperValue> value_of(const PaperColumn& column, const PaperTable& table,
                                   const CodesignResult& search) {
  const DesignAnswer& answer = search.answer;
  if (column.metric == Metric::codesign_visited)
    return PaperValue{.number = 100.0 * answer.share()};
  if (!answer.best) return std::nullopt;
  if (column.metric == Metric::codesign_step)
    return PaperValue{.number = answer.visited[*answer.best].plan->seconds / table.unit};
  const auto gain = search.gain();
  return gain ? std::optional(PaperValue{.number = *gain}) : std::nullopt;
}

/// Fills in the least and most of our value over the neighbouring calibrations.
void add_spread(const PaperColumn& column, const PaperTable& table, const CellJobs& jobs,
                const std::vector<std::vector<RunResult>>& rows, PaperCell& cell) {
  if (jobs.neighbours.empty() || !cell.ours || cell.ours->oom) return;
  cell.least = cell.most = cell.ours->number;
  for (const std::size_t job : jobs.neighbours) {
    const auto near = value_of(column, table, {.own = job, .base = {}}, rows);
    if (!near || near->oom) continue;
    cell.least = std::min(cell.least, near->number);
    cell.most = std::max(cell.most, near->number);
  }
}

bool on_one_device(const RunResult& row) {
  return std::ranges::count_if(row.device_peaks, [](Bytes b) { return b > Bytes{}; }) <= 1;
}

/// By how published and ours order two placers: concordant, discordant, or neither.
int agreement(const PaperCell& a, const PaperCell& b) {
  const auto less = [](const PaperValue& x, const PaperValue& y) {
    if (x.oom || y.oom) return !x.oom && y.oom;
    return x.number < y.number * (1.0 - tie);
  };
  const int theirs = less(*a.published, *b.published) ? -1 : less(*b.published, *a.published);
  const int ours = less(*a.ours, *b.ours) ? -1 : less(*b.ours, *a.ours);
  return theirs * ours;
}

/// How well our order of the placers is theirs: pairs that the paper tells apart and we reverse
/// make a row wrong.
void rank(const PaperTable& table, PaperTableResult& result) {
  double sum = 0.0;
  for (const auto& cells : result.cells) {
    int concordant = 0, discordant = 0;
    for (std::size_t a = 0; a < cells.size(); ++a) {
      for (std::size_t b = a + 1; b < cells.size(); ++b) {
        const bool step_times = table.columns[a].metric == Metric::step_time &&
                                table.columns[b].metric == Metric::step_time;
        if (!step_times || !cells[a].published || !cells[b].published || !cells[a].ours ||
            !cells[b].ours)
          continue;
        const int pair = agreement(cells[a], cells[b]);
        concordant += pair > 0 ? 1 : 0;
        discordant += pair < 0 ? 1 : 0;
      }
    }
    if (concordant + discordant == 0) continue;
    ++result.ranked_rows;
    if (discordant == 0) ++result.right_rows;
    sum += static_cast<double>(concordant - discordant) / (concordant + discordant);
  }
  if (result.ranked_rows > 0) result.kendall = sum / static_cast<double>(result.ranked_rows);
}

void summarise(const PaperTable& table, PaperTableResult& result) {
  for (const auto& cells : result.cells) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const PaperCell& cell = cells[c];
      if (!cell.published || !cell.ours) continue;
      if (cell.published->oom || cell.ours->oom) {
        ++result.oom_cells;
        if (cell.published->oom == cell.ours->oom) ++result.right_oom;
      }
      if (!table.columns[c].counted || is_time_of_placing(table.columns[c].metric) ||
          cell.calibrated || !cell.deviation())
        continue;
      ++result.deviations;
      result.mean_deviation += std::abs(*cell.deviation());
      if (cell.one_device) continue;
      ++result.split_deviations;
      result.split_mean_deviation += std::abs(*cell.deviation());
    }
  }
  if (result.deviations > 0) result.mean_deviation /= static_cast<double>(result.deviations);
  if (result.split_deviations > 0)
    result.split_mean_deviation /= static_cast<double>(result.split_deviations);
  rank(table, result);
}

/// Whether the cell's run is the one its calibration was set by.
bool is_calibrated(const Paper& paper, const PaperRow& row, const PaperColumn& column) {
  const auto c = std::ranges::find(paper.calibrations, row.calibration, &PaperCalibration::name);
  return c != paper.calibrations.end() && column.metric == Metric::step_time &&
         c->placer == column.placer && c->scenario == row.scenario && c->sets == with(row, column);
}

/// Throws InputError for a column whose placer no scenario of its table has. That some have it
/// suffices: a human expert's placement is known of some models only.
void refuse_unknown_placers(const Paper& paper, const AllCellJobs& jobs,
                            const std::vector<std::vector<RunResult>>& rows) {
  Mistakes mistakes;
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const PaperColumn& column = table.columns[c];
      const auto asked = [&](const auto& row) { return row[c].own.has_value(); };
      const auto found = [&](const auto& row) {
        return row[c].own && !runs_of(column.placer, rows[*row[c].own]).empty();
      };
      if (std::ranges::any_of(jobs[t], asked) && std::ranges::none_of(jobs[t], found))
        mistakes.add(fmt::format("{}: table {}, column {}: no scenario has a placer '{}'",
                                 paper.name, table.name, column.name, column.placer));
    }
  }
  mistakes.throw_if_any();
}

}  // namespace

std::optional<double> PaperCell::deviation() const {
  if (!published || !ours || published->oom || ours->oom || published->unread ||
      published->number == 0.0)
    return std::nullopt;
  return ours->number / published->number - 1.0;
}

PaperResult evaluate(const Paper& paper, std::size_t threads, const Watch& watch) {
  PaperResult result;
  result.speeds = calibrate(paper, threads, watch);
  std::vector<Job> jobs;
  const AllCellJobs cell_jobs = all_jobs(paper, result.speeds, jobs);
  const auto rows = run_jobs(jobs, threads, watch);
  refuse_unknown_placers(paper, cell_jobs, rows);
  const Searches searches = all_searches(paper, watch);
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    PaperTableResult& answer = result.tables.emplace_back();
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      const PaperRow& row = table.rows[r];
      auto& cells = answer.cells.emplace_back();
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const PaperColumn& column = table.columns[c];
        PaperCell& cell = cells.emplace_back();
        if (const auto it = row.published.find(column.name); it != row.published.end())
          cell.published = it->second;
        if (row.server) {
          if (is_serving(column.metric))
            if (const auto ours = serving_figure(*row.server, column.metric, column.batches)) {
              const bool time =
                  column.metric == Metric::one_instance || column.metric == Metric::serving_latency;
              cell.ours = PaperValue{.number = *ours / (time ? table.unit : 1.0)};
            }
        } else if (row.arithmetic) {
          if (cell.published) cell.ours = PaperValue{.number = *row.arithmetic};
        } else if (!row.scenario.empty() && is_codesign(column.metric)) {
          cell.ours = value_of(column, table, searches.at({row.scenario, with(row, column)}));
        } else if (!row.scenario.empty()) {
          const CellJobs& of_cell = cell_jobs[t][r][c];
          cell.ours = value_of(column, table, of_cell, rows);
          add_spread(column, table, of_cell, rows, cell);
          const auto runs = runs_of(column.placer, rows[*of_cell.own]);
          cell.one_device =
              column.metric == Metric::step_time && !runs.empty() &&
              std::ranges::all_of(runs, [](auto* run) { return on_one_device(*run); });
        }
        cell.calibrated = is_calibrated(paper, row, column);
      }
    }
    summarise(table, answer);
  }
  return result;
}

}  // namespace baechi
