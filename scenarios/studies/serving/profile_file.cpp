#include "scenarios/studies/serving/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "sim/error.h"

namespace baechi::serving {
namespace {

class ProfileReader {
 public:
  explicit ProfileReader(std::string path) : path_(std::move(path)) {}

  std::vector<LatencyProfile> read(std::string_view text) {
    std::istringstream lines{std::string(text)};
    std::string line;
    std::getline(lines, line);
    header_ = comma_separated(line);
    for (const char* name : {"threads", "batch", "mean_ms"})
      if (std::ranges::count(header_, name) != 1)
        mistakes_.add(fmt::format("{}:1:1: '{}' does not have the column '{}' exactly once", path_,
                                  line.substr(0, 60), name));
    mistakes_.throw_if_any();
    for (number_ = 2; std::getline(lines, line); ++number_)
      if (!line.empty()) add(comma_separated(line));
    mistakes_.throw_if_any();
    std::vector<LatencyProfile> all;
    for (auto& [words, profile] : profiles_) all.push_back(std::move(profile));
    return all;
  }

 private:
  void add(const std::vector<std::string>& cells) {
    const auto mistake = [&](std::size_t column, std::string_view what) {
      if (mistakes_.size() < 20)
        mistakes_.add(fmt::format("{}:{}:{}: {}", path_, number_, column, what));
    };
    if (cells.size() != header_.size())
      return mistake(1,
                     fmt::format("{} cells, the first line has {}", cells.size(), header_.size()));
    LatencyProfile row;
    std::vector<std::string> words;
    std::int64_t threads = 0, batch = 0;
    Duration latency{};
    std::size_t column = 1;
    for (std::size_t i = 0; i < cells.size(); ++i, column += cells[i - 1].size() + 1) {
      const std::string& name = header_[i];
      if (name == "threads" || name == "batch") {
        const std::int64_t most = name == "batch" ? most_batch : most_threads;
        const auto value = parse_number<std::int64_t>(cells[i]);
        if (!value || *value < 1 || *value > most)
          return mistake(column, fmt::format("{}: '{}' is not a whole number from 1 to {}", name,
                                             cells[i], most));
        (name == "batch" ? batch : threads) = *value;
      } else if (name == "mean_ms") {
        const auto value = parse_number<double>(cells[i]);
        const auto time = value && *value > 0.0 ? from_us(*value * 1e3) : std::nullopt;
        if (!time || *time <= Duration{})
          return mistake(column, fmt::format("{}: '{}' is not a time above 0", name, cells[i]));
        latency = *time;
      } else {
        row.of.emplace_back(name, cells[i]);
        words.push_back(cells[i]);
      }
    }
    LatencyProfile& profile = profiles_.try_emplace(words, row).first->second;
    if (!profile.latency.emplace(std::pair(threads, batch), latency).second)
      mistake(1, fmt::format("{} threads and batch {} are listed twice", threads, batch));
  }

  std::string path_;
  std::vector<std::string> header_;
  std::size_t number_ = 0;
  std::map<std::vector<std::string>, LatencyProfile> profiles_;
  Mistakes mistakes_;
};

}  // namespace

std::vector<LatencyProfile> read_latency_profiles(std::string_view text, const std::string& path) {
  return ProfileReader(path).read(text);
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

}  // namespace baechi::serving
