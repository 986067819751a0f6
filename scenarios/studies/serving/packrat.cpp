#include "scenarios/studies/serving/packrat.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "scenarios/read/paths.h"
#include "sim/csv_table.h"
#include "traces/format/compressed_file.h"

namespace baechi::serving {
namespace {

template <class T>
class ByShare {
 public:
  ByShare(std::int64_t threads, std::int64_t batch, T value)
      : batches_(batch + 1), values_(static_cast<std::size_t>((threads + 1) * batches_), value) {}
  T& at(std::int64_t threads, std::int64_t batch) {
    return values_[static_cast<std::size_t>(threads * batches_ + batch)];
  }

 private:
  std::int64_t batches_;
  std::vector<T> values_;
};

/// opt[t][b] = least over entries of join(opt[t - t'][b - b'], entry); opt[.][0] = `none`.
template <class T>
ByShare<T> fill(const LatencyTable& table, std::int64_t threads, std::int64_t batch, T none,
                T never, const std::function<T(T, Duration)>& join) {
  ByShare<T> opt(threads, batch, never);
  for (std::int64_t t = 0; t <= threads; ++t) {
    opt.at(t, 0) = none;
    for (std::int64_t b = 1; b <= batch; ++b)
      for (const auto& [share, latency] : table) {
        if (share.first > t || share.second > b) continue;
        const T rest = opt.at(t - share.first, b - share.second);
        if (rest != never) opt.at(t, b) = std::min(opt.at(t, b), join(rest, latency));
      }
  }
  return opt;
}

/// The instances of a best configuration: the slowest first, then those of the rest, which is
/// optimal, too. `opt`: as of fill().
ServingPlan plan_of_table(const LatencyTable& table, ByShare<Duration>& opt, std::int64_t threads,
                          std::int64_t batch) {
  ServingPlan plan{.latency = opt.at(threads, batch), .instances = {}};
  while (batch > 0) {
    std::optional<std::pair<std::int64_t, std::int64_t>> slowest;
    Duration least = Duration::max();
    for (auto entry = table.rbegin(); entry != table.rend(); ++entry) {  // most threads first
      const auto [t, b] = entry->first;
      if (entry->second != opt.at(threads, batch) || t > threads || b > batch) continue;
      const Duration rest = opt.at(threads - t, batch - b);
      if (rest >= least) continue;
      least = rest;
      slowest = entry->first;
    }
    const auto [t, b] = *slowest;
    const auto same = std::ranges::find_if(plan.instances, [&](const ServingPlan::Instances& i) {
      return i.threads == t && i.batch == b;
    });
    if (same != plan.instances.end())
      ++same->count;
    else
      plan.instances.push_back({1, t, b});
    threads -= t;
    batch -= b;
  }
  return plan;
}

/// Adds a row of the table to its profile. Throws InputError.
void add_row(const CsvTable& table, std::size_t r,
             std::map<std::vector<std::string>, LatencyProfile>& profiles) {
  LatencyProfile row;
  std::vector<std::string> words;
  std::int64_t threads = 0, batch = 0;
  Duration latency{};
  for (std::size_t c = 0; c < table.num_columns(); ++c) {
    const std::string& name = table.name(c);
    const std::string& text = table.text(r, c);
    if (name == "threads" || name == "batch") {
      const std::int64_t most = name == "batch" ? most_batch : most_threads;
      const auto value = parse_number<std::int64_t>(text);
      if (!value || *value < 1 || *value > most)
        throw InputError(fmt::format("{}: {}: '{}' is not a whole number from 1 to {}",
                                     table.where(r, c), name, text, most));
      (name == "batch" ? batch : threads) = *value;
    } else if (name == "mean_ms") {
      const auto value = parse_number<double>(text);
      const auto time = value && *value > 0.0 ? from_us(*value * 1e3) : std::nullopt;
      if (!time || *time <= Duration{})
        throw InputError(
            fmt::format("{}: {}: '{}' is not a time above 0", table.where(r, c), name, text));
      latency = *time;
    } else {
      row.of.emplace_back(name, text);
      words.push_back(text);
    }
  }
  LatencyProfile& profile = profiles.try_emplace(words, row).first->second;
  if (!profile.latency.emplace(std::pair(threads, batch), latency).second)
    throw InputError(fmt::format("{}: {} threads and batch {} are listed twice", table.where(r, 0),
                                 threads, batch));
}

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

std::int64_t ServingPlan::count() const {
  std::int64_t sum = 0;
  for (const Instances& i : instances) sum += i.count;
  return sum;
}

std::optional<ServingPlan> best_serving(const LatencyTable& table, std::int64_t threads,
                                        std::int64_t batch, double interference) {
  auto opt = fill<Duration>(table, threads, batch, Duration{}, Duration::max(),
                            [](Duration a, Duration b) { return std::max(a, b); });
  std::optional<ServingPlan> best;
  if (opt.at(threads, batch) != Duration::max()) {
    best = plan_of_table(table, opt, threads, batch);
    if (best->count() > 1)
      best->latency =
          Duration{std::llround(static_cast<double>(best->latency.count()) * interference)};
  }
  for (std::int64_t t = threads; t > 0 && interference > 1.0; --t) {  // or a single instance
    const auto alone = table.find({t, batch});
    if (alone != table.end() && alone->second < best->latency)
      best = ServingPlan{.latency = alone->second, .instances = {{1, t, batch}}};
  }
  return best;
}

std::vector<LatencyProfile> read_latency_profiles(std::string_view text, const std::string& path) {
  Mistakes mistakes;
  std::vector<std::string> malformed, names;
  const CsvTable table(text, path, &malformed);
  for (std::size_t c = 0; c < table.num_columns(); ++c) names.push_back(table.name(c));
  for (const char* name : {"threads", "batch", "mean_ms"})
    if (std::ranges::count(names, name) != 1)
      mistakes.add(fmt::format("{}:1:1: '{}' does not have the column '{}' exactly once", path,
                               fmt::format("{}", fmt::join(names, ",")).substr(0, 60), name));
  mistakes.throw_if_any();
  std::map<std::vector<std::string>, LatencyProfile> profiles;
  for (std::size_t r = 0; r < table.num_rows() && mistakes.size() < 20; ++r)
    mistakes.attempt([&] { add_row(table, r, profiles); });
  for (const std::string& mistake : malformed | std::views::take(20)) mistakes.add(mistake);
  mistakes.throw_if_any();
  std::vector<LatencyProfile> all;
  for (auto& [words, profile] : profiles) all.push_back(std::move(profile));
  return all;
}

std::vector<std::string> comma_separated(std::string_view line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',')
      cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  }
  return cells;
}

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
  std::vector<LatencyProfile> profiles = read_latency_profiles(
      read_small_file(order.file, TextFile::most_text, "a table"), order.file);
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
