#include "scenarios/run/resumable_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "scenarios/report/write_results.h"
#include "scenarios/run/drawings.h"
#include "sim/error.h"

namespace baechi {

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
