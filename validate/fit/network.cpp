#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sim/error.h"
#include "validate/fit/fit.h"
#include "validate/published/vtrain.h"

namespace baechi::validate {
namespace {

/// What is tried, all pairs: shares of the line rate, and NICs of groups with several ranks on a
/// node; 0: all NICs.
constexpr std::array<double, 4> efficiencies{0.7, 0.8, 0.9, 1.0};
constexpr std::array<double, 7> groups_nics{0.0, 0.6, 0.8, 0.9, 1.0, 1.2, 2.0};
constexpr std::size_t num_tries = efficiencies.size() * groups_nics.size();

/// The absolute error of every step with every pair. [tries, steps]
std::vector<std::vector<double>> errors_of(const std::vector<GptStep>& steps) {
  std::vector<std::vector<double>> errors(num_tries, std::vector<double>(steps.size()));
  tbb::parallel_for(std::size_t{0}, num_tries * steps.size(), [&](std::size_t i) {
    const std::size_t t = i / steps.size(), s = i % steps.size();
    const std::string network =
        network_text(efficiencies[t / groups_nics.size()], groups_nics[t % groups_nics.size()]);
    errors[t][s] = std::abs(
        simulated_ms(parallel_step(steps[s], network), megatron_gpu()) / steps[s].ms - 1.0);
  });
  return errors;
}

/// The mean over the steps that count.
double mean(const std::vector<double>& errors, const std::vector<bool>& counts) {
  double sum = 0.0, n = 0.0;
  for (std::size_t s = 0; s < errors.size(); ++s)
    if (counts[s]) sum += errors[s], n += 1.0;
  return n > 0.0 ? sum / n : 0.0;
}

/// The try with the least mean; of equals the first.
std::size_t best(const std::vector<std::vector<double>>& errors, const std::vector<bool>& counts) {
  std::size_t found = 0;
  for (std::size_t t = 1; t < errors.size(); ++t)
    if (mean(errors[t], counts) < mean(errors[found], counts)) found = t;
  return found;
}

/// The mean over all steps, each with the pair that is best without its model.
double left_out(const std::vector<std::vector<double>>& errors, const std::vector<GptStep>& steps) {
  std::set<std::pair<std::int64_t, std::int64_t>> models;
  for (const GptStep& s : steps) models.emplace(s.hidden, s.layers);
  double sum = 0.0;
  for (const auto& model : models) {
    std::vector<bool> others;
    for (const GptStep& s : steps) others.push_back(std::pair(s.hidden, s.layers) != model);
    const std::size_t t = best(errors, others);
    for (std::size_t s = 0; s < steps.size(); ++s)
      if (!others[s]) sum += errors[t][s];
  }
  return sum / static_cast<double>(steps.size());
}

}  // namespace

std::string fit_network(const std::string& folder, const Watch& /*watch*/) {
  Leftovers left;
  const auto steps = vtrain_multi_node(folder, left);
  if (!steps || steps->empty())
    throw InputError(fmt::format("{}: no vtrain/measured_multi_node.csv", folder));
  left.throw_if_any();
  const auto errors = errors_of(*steps);
  const std::vector<bool> all(steps->size(), true);
  const std::size_t t = best(errors, all);
  // The last efficiency with all NICs: the data sheet.
  const std::size_t sheet = num_tries - groups_nics.size();
  return fmt::format(
      "nodes:\n  dgx_a100:\n    {{{}}}\n"
      "# mean absolute error: {:.1f} % over {} steps; at the line rate of all NICs {:.1f} %;\n"
      "# of each model's steps with the numbers that fit the other models {:.1f} %\n",
      network_text(efficiencies[t / groups_nics.size()], groups_nics[t % groups_nics.size()]),
      100.0 * mean(errors[t], all), steps->size(), 100.0 * mean(errors[sheet], all),
      100.0 * left_out(errors, *steps));
}

}  // namespace baechi::validate
