#include "scenarios/run/resumable_run.h"

#include <filesystem>

#include "scenarios/read/paths.h"
#include "scenarios/report/html.h"
#include "sim/explain/explanation.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

std::string file_name(const RunResult& row) {
  return fmt::format("{}.{}.trace.json.gz", row.id, plain_file_name(row.placer));
}

/// Only steps are drawn, no pipelines.
bool was_simulated(const RunResult& row) {
  return row.is_step_time() && (row.status == Status::ok || row.status == Status::oom);
}

struct Task {
  std::size_t id;
  bool draw, file;
};

/// Adds the pictures and files of a point's runs.
void add_drawing_tasks(std::vector<Task>& tasks, Sweep::Ids runs, const RowById& row_of, bool draw,
                       bool all, Timelines files) {
  std::optional<std::size_t> fastest;  // ties: the first; a run out of memory is never the fastest
  Duration best{};
  std::vector<std::size_t> simulated;
  for (std::size_t id = runs.begin; id < runs.end; ++id) {
    const std::optional<RunResult> row = row_of(id);
    if (!row || !was_simulated(*row)) continue;
    simulated.push_back(id);
    const Duration time = row->value.value_or(Duration::max());
    if (fastest && time >= best) continue;
    fastest = id;
    best = time;
  }
  for (const std::size_t id : simulated) {
    const bool drawn = draw && (all || id == fastest);
    const bool file = files == Timelines::all || (files == Timelines::best && id == fastest);
    if (drawn || file) tasks.push_back({id, drawn, file});
  }
}

std::vector<Task> tasks_of(const Sweep& sweep, const RowById& row_of) {
  std::size_t most = 0, per_point = 1;
  for (const ScenarioFile& file : sweep.files()) {
    most = std::max(most, file.report.pictures);
    per_point = std::max(per_point, file.placements_per_point());
  }
  const std::vector<std::size_t> drawn = points_to_draw(sweep.num_points(), per_point, most);
  std::vector<Task> tasks;
  std::size_t p = 0;
  for (const ScenarioFile& file : sweep.files()) {
    for (const std::size_t end = p + file.num_points(); p < end; ++p) {
      const bool draw = std::ranges::binary_search(drawn, p);
      if (draw || file.report.timelines != Timelines::none)
        add_drawing_tasks(tasks, sweep.runs_of(p), row_of, draw, per_point <= most,
                          file.report.timelines);
    }
  }
  return tasks;
}

}  // namespace

std::vector<std::size_t> points_to_draw(std::size_t points, std::size_t per_point,
                                        std::size_t most) {
  const std::size_t drawn = std::min(points, per_point <= most ? most / per_point : most);
  std::vector<std::size_t> chosen;
  for (std::size_t k = 0; k < drawn; ++k)  // evenly spaced, from the first to the last
    chosen.push_back(drawn == 1 ? 0 : k * (points - 1) / (drawn - 1));
  return chosen;
}

DrawnSteps draw_steps(const Sweep& sweep, const RowById& row_of, const std::string& folder,
                      std::size_t threads, const std::atomic<bool>* stop) {
  const std::vector<Task> tasks = tasks_of(sweep, row_of);
  std::filesystem::create_directories(folder);
  std::vector<std::string> kept;
  for (const Task& task : tasks)
    if (task.file) kept.push_back(file_name(*row_of(task.id)));
  remove_other_timelines(folder, kept);
  std::vector<std::string> wrong(tasks.size()), pictures(tasks.size());
  std::atomic<std::size_t> files{0};
  for_each_in_parallel(tasks.size(), threads, stop, [&](std::size_t i) {
    const Task& task = tasks[i];
    try {
      const std::optional<RunResult> row = row_of(task.id);
      if (!row) return;
      const ExperimentStep run = step_of(sweep, *row);
      const Problem problem = run.problem();
      Timeline timeline;
      StepObserver* observers[] = {&timeline};
      const StepResult step = run.simulate(observers);
      const std::vector<PathPart> path = critical_path_of(problem, run.placement(), timeline, step);
      if (task.draw)
        pictures[i] = picture(problem, timeline, step, path, {},
                              roofline(problem, timeline, run.device_models()));
      if (!task.file) return;
      write_file(folder + "/" + file_name(*row), [&](const TextSink& sink) {
        write_perfetto(sink, problem, timeline, step, path);
      });
      files.fetch_add(1, std::memory_order_relaxed);
    } catch (const std::exception& e) {
      wrong[i] = fmt::format("run {}: {}", task.id, e.what());
    }
  });
  for (const std::string& what : wrong)
    if (!what.empty()) throw std::runtime_error(what);
  DrawnSteps seen{.pictures = {}, .files = files};
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (!pictures[i].empty()) seen.pictures.emplace(tasks[i].id, std::move(pictures[i]));
  return seen;
}

std::size_t draw_steps(Results& results, const Sweep& sweep, const std::string& folder,
                       std::size_t threads) {
  const auto row = [&](std::size_t id) -> std::optional<RunResult> {
    const auto it = std::ranges::lower_bound(results.rows, id, {}, &RunResult::id);
    if (it == results.rows.end() || it->id != id) return std::nullopt;
    return *it;
  };
  DrawnSteps seen = draw_steps(sweep, row, folder, threads);
  for (RunResult& row_of : results.rows) row_of.picture = std::move(seen.pictures[row_of.id]);
  return seen.files;
}

ResumableRun::ResumableRun(std::string folder, const Sweep& sweep, std::vector<std::size_t> ids,
                           bool resume, std::chrono::milliseconds wait)
    : folder_(std::move(folder)),
      sweep_(sweep),
      ids_(std::move(ids)),
      journal_(folder_ + "/runs.journal", sweep, resume, wait) {
  if (!resume || !std::filesystem::exists(folder_ + "/results.sqlite")) return;
  try {
    take_over_results();
  } catch (...) {
    if (journal_.size() == 0) journal_.remove();
    throw;
  }
}

void ResumableRun::take_over_results() {
  Results known = read_results(folder_);
  std::multimap<std::uint64_t, std::size_t> ids;  // by key
  for (std::size_t id = 0; id < sweep_.num_runs(); ++id)
    ids.emplace(sweep_.key(sweep_.run(id)), id);
  const auto strangers = std::ranges::count_if(
      known.rows, [&](const RunResult& row) { return !ids.contains(row.key); });
  if (strangers > 0)
    throw InputError(
        fmt::format("--resume: {} holds {} runs of another scenario or version; choose another "
                    "--out, or run without --resume",
                    folder_, strangers));
  for (RunResult& row : known.rows) {
    const auto [first, last] = ids.equal_range(row.key);
    for (auto same = first; same != last; ++same) {
      row.id = same->second;
      journal_.add(std::span(&row, 1));
    }
  }
}

std::vector<std::size_t> ResumableRun::remaining() const {
  std::vector<std::size_t> left = ids_;
  std::erase_if(left, [&](std::size_t id) { return journal_.has(id); });
  return left;
}

void ResumableRun::run(std::span<const std::size_t> ids, const RunSettings& settings) {
  std::atomic<std::size_t> begun{0};
  const std::size_t threads =
      std::clamp<std::size_t>(ids.size(), 1, std::max<std::size_t>(1, settings.threads));
  run_each(sweep_, threads, each_of(ids, begun, settings.stop),
           [&](std::span<const RunResult> rows) {
             journal_.add(rows);
             if (settings.done != nullptr) settings.done->fetch_add(rows.size());
           });
}

EachRow ResumableRun::rows() const {
  return [this](const VisitRow& visit) {
    for (std::size_t id = 0; id < sweep_.num_runs(); ++id) {
      std::optional<RunResult> row = journal_.row(id);
      if (!row) continue;
      if (const auto picture = pictures_.find(id); picture != pictures_.end())
        row->picture = picture->second;
      visit(*row);
    }
  };
}

ResumableRun::Outcome ResumableRun::finish(const RunSettings& settings, const std::string& shard) {
  Outcome outcome;
  DrawnSteps seen = draw_steps(
      sweep_, [this](std::size_t id) { return journal_.row(id); }, folder_, settings.threads,
      settings.stop);
  outcome.timelines = seen.files;
  pictures_ = std::move(seen.pictures);
  const EachRow all = rows();
  ResultsHeader header = sweep_.header();
  header.missing = remaining().size();
  header.shard = shard;
  write_results(folder_, header, [&](const VisitRow& visit) {
    all([&](const RunResult& row) {
      ++outcome.rows;
      if (row.status == Status::error && ++outcome.failed == 1)
        outcome.first_failure = fmt::format("run {} ({}): {}", row.id, row.placer, row.detail);
      visit(row);
    });
  });
  journal_.remove();
  return outcome;
}

}  // namespace baechi
