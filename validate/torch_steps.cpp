#include "validate/torch_steps.h"

#include <cmath>
#include <filesystem>

#include "scenarios/read/paths.h"
#include "sim/csv_table.h"
#include "validate/statistics.h"

namespace baechi::validate {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 20;

constexpr std::string_view without = "without_", microseconds = "_us";

std::vector<TorchEffect> effects_of(const CsvTable& csv) {
  std::vector<TorchEffect> effects;
  for (std::size_t k = 0; k < csv.num_columns(); ++k) {
    std::string_view column = csv.name(k);
    if (!column.starts_with(without) || !column.ends_with(microseconds)) continue;
    column.remove_prefix(without.size());
    column.remove_suffix(microseconds.size());
    effects.push_back({.name = std::string(column)});
  }
  return effects;
}

std::vector<TorchCase> read_cases(const CsvTable& csv, const std::vector<TorchEffect>& effects) {
  const auto at = [&](std::size_t row, const std::string& name, double least) {
    return csv.number(row, csv.column(name), least);
  };
  std::vector<TorchCase> cases;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::string& counts = csv.text(row, csv.column("counts"));
    if (counts != "yes" && counts != "no")
      throw InputError(fmt::format("{}: counts is '{}', not yes or no",
                                   csv.where(row, csv.column("counts")), counts));
    constexpr double least_us = 1e-3;
    cases.push_back(
        {.model = csv.text(row, csv.column("model")),
         .way = csv.text(row, csv.column("way")),
         .cut = csv.text(row, csv.column("cut")),
         .predicted = at(row, "predicted_us", least_us),
         .measured = at(row, "measured_us", least_us),
         .noise = at(row, "noise", 0.0),
         .counts = counts == "yes",
         .recorded_noise = csv.has("recorded_noise") ? at(row, "recorded_noise", 0.0) : 0.0,
         .drift = csv.has("drift") ? at(row, "drift", -1.0) : 0.0,
         .no_transfers = at(row, "no_transfers_us", 0.0),
         .baechi = at(row, "baechi_us", 0.0)});
    for (const TorchEffect& effect : effects)
      cases.back().without.push_back(
          at(row, std::string(without) + effect.name + std::string(microseconds), 0.0));
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

/// What the effects are worth: errors with and without each, where it moves a prediction.
void compare_effects(TorchScore& score) {
  for (std::size_t k = 0; k < score.effects.size(); ++k) {
    std::vector<double> with, otherwise;
    for (const TorchCase& c : score.cases) {
      if (!c.counts || c.without[k] == c.predicted) continue;
      with.push_back(c.error());
      otherwise.push_back(c.without[k] / c.measured - 1.0);
    }
    TorchEffect& effect = score.effects[k];
    effect.cases = with.size();
    effect.with = errors_of(std::move(with));
    effect.without = errors_of(std::move(otherwise));
  }
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
  const CsvTable csv(read_small_file(path, most_bytes), path);
  TorchScore score{.peaks = read_peaks(folder + "/peaks.csv"), .effects = effects_of(csv)};
  score.cases = read_cases(csv, score.effects);
  std::vector<double> errors, steady, no_transfers, baechi, noise, recorded, drift, peaks;
  for (const TorchCase& c : score.cases) {
    if (!c.counts) continue;
    errors.push_back(c.error());
    steady.push_back(c.steady_error());
    drift.push_back(c.drift);
    no_transfers.push_back(c.no_transfers / c.measured - 1.0);
    baechi.push_back(c.baechi / c.measured - 1.0);
    noise.push_back(c.noise);
    recorded.push_back(c.recorded_noise);
  }
  for (const TorchPeak& p : score.peaks) peaks.push_back(p.error());
  const auto well = std::ranges::count_if(
      peaks, [](double error) { return std::abs(error) <= most_error_of_peak; });
  if (!peaks.empty())
    score.peaks_told_well = static_cast<double>(well) / static_cast<double>(peaks.size());
  score.counting = errors.size();
  if (errors.empty() && (!score.cases.empty() || score.peaks.empty()))
    throw InputError(fmt::format(
        "{}: no case counts: of each the rounds lie more than 10 % apart, or there is one alone, "
        "or the machine's speed has changed by more than 5 %; measure on an idle machine",
        path));
  score.errors = errors_of(std::move(errors));
  score.steady = errors_of(std::move(steady));
  score.no_transfers = errors_of(std::move(no_transfers));
  score.baechi = errors_of(std::move(baechi));
  score.of_peaks = errors_of(std::move(peaks));
  score.noise = errors_of(std::move(noise)).median;
  score.drift = errors_of(std::move(drift)).median;
  score.recorded_noise = errors_of(std::move(recorded)).median;
  compare_effects(score);
  compare_ways(score);
  return score;
}

}  // namespace baechi::validate
