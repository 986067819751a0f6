#include "scenarios/run/resumable_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "scenarios/report/write_results.h"
#include "scenarios/run/drawings.h"
#include "sim/error.h"

namespace baechi {

ResumableRun::ResumableRun(std::string folder, const Sweep& sweep, bool resume)
    : folder_(std::move(folder)),
      sweep_(sweep),
      journal_(folder_ + "/runs.journal", sweep, resume) {
  if (resume && std::filesystem::exists(folder_ + "/results.sqlite")) take_over_results();
}

void ResumableRun::take_over_results() {
  Results known = read_results(folder_);
  std::multimap<std::uint64_t, std::size_t> ids;  // by key
  for (std::size_t id = 0; id < sweep_.num_runs(); ++id)
    ids.emplace(sweep_.key(sweep_.run(id)), id);
  std::size_t strangers = 0;
  for (RunResult& row : known.rows) {
    const auto [first, last] = ids.equal_range(row.key);
    if (first == last) ++strangers;
    for (auto same = first; same != last; ++same) {
      row.id = same->second;
      journal_.add(std::span(&row, 1));
    }
  }
  if (strangers > 0)
    throw InputError(
        fmt::format("--resume: {} holds {} runs of another scenario or version; choose another "
                    "--out, or run without --resume",
                    folder_, strangers));
}

std::vector<std::size_t> ResumableRun::remaining(std::vector<std::size_t> ids) const {
  std::erase_if(ids, [&](std::size_t id) { return journal_.has(id); });
  return ids;
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

ResumableRun::Outcome ResumableRun::finish(const RunSettings& settings) {
  Outcome outcome;
  DrawnSteps seen = draw_steps(
      sweep_, [this](std::size_t id) { return journal_.row(id); }, folder_, settings.threads,
      settings.stop);
  outcome.timelines = seen.files;
  pictures_ = std::move(seen.pictures);
  const EachRow all = rows();
  write_results(folder_, sweep_.header(), [&](const VisitRow& visit) {
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
