#include "scenarios/run/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "scenarios/run/parallel.h"
#include "scenarios/run/paths.h"
#include "sim/report/picture.h"

namespace baechi {
namespace {

/// The positions of the simulated rows of each point, in the order of the points.
std::vector<std::vector<std::size_t>> simulated_by_point(const Results& results) {
  using Point = std::tuple<std::size_t, std::size_t, std::vector<std::string>>;
  std::map<Point, std::size_t> number;
  std::vector<std::vector<std::size_t>> points;
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    const RunResult& row = results.rows[i];
    if (row.status != Status::ok && row.status != Status::oom) continue;
    const auto [it, first] = number.emplace(Point{row.scenario, row.graph, row.at}, points.size());
    if (first) points.emplace_back();
    points[it->second].push_back(i);
  }
  return points;
}

/// The fastest of the rows; of equals the first. One that ran out of memory is never faster.
std::size_t fastest(const Results& results, const std::vector<std::size_t>& rows) {
  return *std::ranges::min_element(
      rows, {}, [&](std::size_t i) { return results.rows[i].step_time.value_or(Duration::max()); });
}

std::string file_name(const RunResult& row) {
  return fmt::format("{}.{}.trace.json.gz", row.id, plain_file_name(row.placer));
}

}  // namespace

std::vector<std::size_t> rows_to_draw(const Results& results, std::size_t most) {
  const auto points = simulated_by_point(results);
  std::size_t per_point = 1;
  for (const auto& rows : points) per_point = std::max(per_point, rows.size());
  const bool whole = per_point <= most;
  const std::size_t drawn = std::min(points.size(), whole ? most / per_point : most);
  std::vector<std::size_t> positions;
  for (std::size_t k = 0; k < drawn; ++k) {
    // Evenly spaced, the first and the last among them.
    const std::size_t p = drawn == 1 ? 0 : k * (points.size() - 1) / (drawn - 1);
    if (whole)
      positions.insert(positions.end(), points[p].begin(), points[p].end());
    else
      positions.push_back(fastest(results, points[p]));
  }
  return positions;
}

std::size_t look_at_steps(Results& results, const Plan& plan, const std::string& folder,
                          std::size_t threads, const std::atomic<bool>* stop) {
  std::size_t most = 0;
  for (const ScenarioFile& file : plan.files) most = std::max(most, file.report.pictures);
  std::vector<bool> draw(results.rows.size()), best(results.rows.size());
  for (const std::size_t i : rows_to_draw(results, most)) draw[i] = true;
  for (const auto& rows : simulated_by_point(results)) best[fastest(results, rows)] = true;

  struct Task {
    RunResult* row;
    bool draw, file;
  };
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    RunResult& row = results.rows[i];
    row.picture.clear();
    const Timelines wanted = plan.files[row.scenario].report.timelines;
    const bool simulated = row.status == Status::ok || row.status == Status::oom;
    const bool file =
        simulated && (wanted == Timelines::all || (wanted == Timelines::best && best[i]));
    if (draw[i] || file) tasks.push_back({&row, draw[i], file});
  }
  std::filesystem::create_directories(folder);
  std::vector<std::string> wrong(tasks.size());
  std::atomic<std::size_t> files{0};
  for_each_in_parallel(tasks.size(), threads, stop, [&](std::size_t i) {
    const auto& [row, drawn, to_file] = tasks[i];
    try {
      const RunStep run = step_of(plan, *row);
      const Problem problem = run.problem();
      Timeline timeline;
      StepObserver* observers[] = {&timeline};
      const StepResult step = simulate(problem, run.placement(), observers);
      if (drawn) row->picture = picture(problem, timeline, step);
      if (!to_file) return;
      write_perfetto(folder + "/" + file_name(*row), problem, timeline, step);
      files.fetch_add(1, std::memory_order_relaxed);
    } catch (const std::exception& e) {
      wrong[i] = fmt::format("run {}: {}", row->id, e.what());
    }
  });
  for (const std::string& what : wrong)
    if (!what.empty()) throw std::runtime_error(what);
  return files;
}

}  // namespace baechi
