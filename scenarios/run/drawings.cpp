#include "scenarios/run/drawings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "scenarios/read/paths.h"
#include "scenarios/results/merge.h"
#include "scenarios/run/parallel.h"
#include "sim/explain/explanation.h"
#include "sim/report/timeline.h"
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

}  // namespace baechi
