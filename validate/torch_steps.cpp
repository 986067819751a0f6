#include "validate/torch_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "scenarios/read/paths.h"
#include "sim/csv_table.h"
#include "sim/error.h"
#include "validate/statistics.h"

namespace baechi::validate {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 20;

std::vector<TorchCase> read_cases(const std::string& path) {
  const CsvTable csv(read_small_file(path, most_bytes), path);
  const auto at = [&](std::size_t row, const char* name, double least) {
    return csv.number(row, csv.column(name), least);
  };
  std::vector<TorchCase> cases;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::string& counts = csv.text(row, csv.column("counts"));
    if (counts != "yes" && counts != "no")
      throw InputError(fmt::format("{}: counts is '{}', not yes or no",
                                   csv.where(row, csv.column("counts")), counts));
    constexpr double least_us = 1e-3;
    cases.push_back({.model = csv.text(row, csv.column("model")),
                     .way = csv.text(row, csv.column("way")),
                     .cut = csv.text(row, csv.column("cut")),
                     .predicted = at(row, "predicted_us", least_us),
                     .measured = at(row, "measured_us", least_us),
                     .noise = at(row, "noise", 0.0),
                     .counts = counts == "yes",
                     .no_transfers = at(row, "no_transfers_us", 0.0),
                     .baechi = at(row, "baechi_us", 0.0)});
  }
  return cases;
}

std::vector<TorchPeak> read_peaks(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const CsvTable csv(read_small_file(path, most_bytes), path);
  std::vector<TorchPeak> peaks;
  for (std::size_t row = 0; row < csv.num_rows(); ++row)
    peaks.push_back({.model = csv.text(row, csv.column("model")),
                     .way = csv.text(row, csv.column("way")),
                     .cut = csv.text(row, csv.column("cut")),
                     .rank = csv.whole(row, csv.column("rank")),
                     .predicted = csv.number(row, csv.column("predicted_bytes")),
                     .measured = csv.number(row, csv.column("measured_bytes"), 1.0)});
  return peaks;
}

TorchErrors errors_of(std::vector<double> errors) {
  if (errors.empty()) return {};
  for (double& e : errors) e = std::abs(e);
  return {.median = quantile(Samples(errors), 0.5), .worst = std::ranges::max(errors)};
}

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

/// Regret and order within each model with two cases or more that count.
void compare_ways(TorchScore& score) {
  std::map<std::string, std::vector<const TorchCase*>> models;
  for (const TorchCase& c : score.cases)
    if (c.counts) models[c.model].push_back(&c);
  std::vector<double> regrets, orders;
  for (const auto& [model, cases] : models) {
    if (cases.size() < 2) continue;
    std::vector<double> predicted, measured;
    for (const TorchCase* c : cases) {
      predicted.push_back(c->predicted);
      measured.push_back(c->measured);
    }
    const auto chosen = std::ranges::min_element(predicted) - predicted.begin();
    const double best = std::ranges::min(measured);
    regrets.push_back(measured[static_cast<std::size_t>(chosen)] / best - 1.0);
    if (const double rho = spearman(predicted, measured); !std::isnan(rho)) orders.push_back(rho);
  }
  score.regret = mean(regrets);
  score.worst_regret = regrets.empty() ? 0.0 : std::ranges::max(regrets);
  score.order = mean(orders);
}

}  // namespace

TorchScore score_torch(const std::string& folder) {
  const std::string path = folder + "/score.csv";
  TorchScore score{.cases = read_cases(path), .peaks = read_peaks(folder + "/peaks.csv")};
  std::vector<double> errors, no_transfers, baechi, noise, peaks;
  for (const TorchCase& c : score.cases) {
    if (!c.counts) continue;
    errors.push_back(c.error());
    no_transfers.push_back(c.no_transfers / c.measured - 1.0);
    baechi.push_back(c.baechi / c.measured - 1.0);
    noise.push_back(c.noise);
  }
  for (const TorchPeak& p : score.peaks) peaks.push_back(p.error());
  score.counting = errors.size();
  if (errors.empty())
    throw InputError(fmt::format(
        "{}: no case counts: of each the rounds lie more than 10 % apart, or it has one alone; "
        "measure on an idle machine",
        path));
  score.errors = errors_of(std::move(errors));
  score.no_transfers = errors_of(std::move(no_transfers));
  score.baechi = errors_of(std::move(baechi));
  score.of_peaks = errors_of(std::move(peaks));
  score.noise = errors_of(std::move(noise)).median;
  compare_ways(score);
  return score;
}

}  // namespace baechi::validate
