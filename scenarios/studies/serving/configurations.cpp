#include "scenarios/studies/serving/configurations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/error.h"
#include "traces/format/compressed_file.h"

namespace baechi::serving {
namespace {

/// The batches in the text; of a range, those that a profile has.
std::vector<std::int64_t> batches_of(const std::string& text,
                                     const std::vector<LatencyProfile>& all) {
  const auto number = [&](const std::string& word) {
    const auto value = parse_number<std::int64_t>(word);
    if (!value || *value < 1 || *value > most_batch)
      throw InputError(
          fmt::format("--batch: '{}' is not a number from 1 to {}, a list such as "
                      "8,24, or a range such as 8..1024",
                      word, most_batch));
    return *value;
  };
  std::vector<std::int64_t> batches;
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    for (const std::string& word : comma_separated(text)) batches.push_back(number(word));
    return batches;
  }
  const std::int64_t first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
  std::set<std::int64_t> known;
  for (const LatencyProfile& profile : all)
    for (const auto& [share, latency] : profile.latency)
      if (share.second >= first && share.second <= last) known.insert(share.second);
  return {known.begin(), known.end()};
}

std::int64_t read_threads(const std::string& text) {
  const auto threads = parse_number<std::int64_t>(text);
  if (!threads || *threads < 1 || *threads > most_threads)
    throw InputError(
        fmt::format("--threads: '{}' is not a whole number from 1 to {}", text, most_threads));
  return *threads;
}

double read_interference(const std::string& text) {
  const auto factor = text.empty() ? std::optional(1.0) : parse_number<double>(text);
  if (!factor || !(*factor >= 1.0 && *factor <= 100.0))
    throw InputError(fmt::format("--interference: '{}' is not a factor from 1 to 100", text));
  return *factor;
}

void keep_where(const std::string& text, std::vector<LatencyProfile>& profiles) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError(fmt::format("--where: '{}' is not COLUMN=WORD", text));
  const std::pair wanted{text.substr(0, equals), text.substr(equals + 1)};
  std::erase_if(profiles,
                [&](const LatencyProfile& p) { return std::ranges::count(p.of, wanted) == 0; });
}

}  // namespace

std::optional<double> Configuration::speed_up() const {
  if (!best || !one_instance) return std::nullopt;
  return to_us(*one_instance) / to_us(best->latency);
}

std::optional<double> ProfileConfigurations::mean_speed_up() const {
  double sum = 0.0;
  std::size_t count = 0;
  for (const Configuration& one : batches)
    if (const auto ratio = one.speed_up()) {
      sum += *ratio;
      ++count;
    }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::vector<ProfileConfigurations> configurations(const ServingOrder& order) {
  std::vector<LatencyProfile> profiles = read_latency_profiles(read_file(order.file), order.file);
  const std::int64_t threads = read_threads(order.threads);
  const double interference = read_interference(order.interference);
  for (const std::string& text : order.where) keep_where(text, profiles);
  if (profiles.empty()) throw InputError(fmt::format("{}: no such profile", order.file));
  const std::vector<std::int64_t> batches = batches_of(order.batch, profiles);
  std::vector<ProfileConfigurations> all;
  for (LatencyProfile& profile : profiles) {
    ProfileConfigurations one{.profile = std::move(profile),
                              .threads = threads,
                              .interference = interference,
                              .batches = {}};
    for (const std::int64_t batch : batches) {
      Configuration& found = one.batches.emplace_back();
      found.batch = batch;
      found.best = best_serving(one.profile.latency, threads, batch, interference);
      const auto whole = one.profile.latency.find({threads, batch});
      if (whole != one.profile.latency.end()) found.one_instance = whole->second;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace baechi::serving
