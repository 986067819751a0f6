#include "sim/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace baechi {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr auto byte_units = std::to_array<Unit>({{"B", 1},
                                                 {"kB", 1e3},
                                                 {"KB", 1e3},
                                                 {"MB", 1e6},
                                                 {"GB", 1e9},
                                                 {"TB", 1e12},
                                                 {"K", 1024.0},
                                                 {"M", 1048576.0},
                                                 {"G", 1073741824.0},
                                                 {"T", 1099511627776.0},
                                                 {"KiB", 1024.0},
                                                 {"MiB", 1048576.0},
                                                 {"GiB", 1073741824.0},
                                                 {"TiB", 1099511627776.0}});
constexpr auto time_units = std::to_array<Unit>(
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}});
constexpr auto flop_units = std::to_array<Unit>(
    {{"FLOP", 1}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}});

/// Value of `text` in the base unit.
std::optional<double> parse_amount(std::string_view text, std::span<const Unit> units,
                                   std::string_view suffix = {}) {
  double number = 0.0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc{} || !std::isfinite(number) || number < 0.0) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty() && number == 0.0) return 0.0;
  if (!suffix.empty()) {
    if (!unit.ends_with(suffix)) return std::nullopt;
    unit.remove_suffix(suffix.size());
  }
  for (const auto& [name, factor] : units) {
    if (unit == name) return number * factor;
  }
  return std::nullopt;
}

std::optional<std::int64_t> to_count(std::optional<double> value) {
  if (!value || !(*value < 9.2e18)) return std::nullopt;
  return std::llround(*value);
}

}  // namespace

Duration operator/(Bytes size, Bandwidth bw) {
  return Duration{
      saturated(std::ceil(static_cast<double>(size.count) * 1e9 / bw.bytes_per_second))};
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  const auto n = to_count(parse_amount(text, byte_units));
  return n ? std::optional(Bytes{*n}) : std::nullopt;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto n = to_count(parse_amount(text, time_units));
  return n ? std::optional(Duration{*n}) : std::nullopt;
}

std::optional<Bandwidth> parse_bandwidth(std::string_view text) {
  if (!text.ends_with("B/s")) return std::nullopt;  // not '5 G/s', which could be bits
  const auto v = parse_amount(text, byte_units, "/s");
  return v && *v > 0.0 && std::isfinite(*v) ? std::optional(Bandwidth{*v}) : std::nullopt;
}

std::optional<FlopRate> parse_flop_rate(std::string_view text) {
  const auto v = parse_amount(text, flop_units, "/s");
  return v && *v > 0.0 && std::isfinite(*v) ? std::optional(FlopRate{*v}) : std::nullopt;
}

std::string unit_advice(std::string_view text, std::string_view suffix) {
  double number = 0.0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc{} || !(number > 0.0)) return "";
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const std::string_view scale = unit.substr(0, unit.find_first_of("kKMGT") == 0 ? 1 : 0);
  const std::string prefix = scale == "k" || scale == "K" ? "k" : std::string(scale);
  std::string_view rest = unit.substr(scale.size());
  for (const std::string_view bits : {"bit/s", "bits/s", "b/s", "bps", "bit", "bits"})
    if (rest == bits)
      return fmt::format("; in bytes, of 8 bits each: '{} {}B{}'", number / 8.0, prefix, suffix);
  if (rest.starts_with('i')) rest.remove_prefix(1);
  if (!rest.empty() && rest != suffix) return "";
  const std::string most = prefix.empty() ? "G" : prefix;
  return fmt::format("; with its unit: '{0} {1}B{2}' or '{0} {3}iB{2}'", number, most, suffix,
                     most == "k" ? std::string("K") : most);
}

std::string to_text(Bytes size) {
  const double v = static_cast<double>(size.count);
  if (std::abs(v) < 1024) return fmt::format("{} B", size.count);
  if (std::abs(v) < 1048576.0) return fmt::format("{:.2f} KiB", v / 1024.0);
  if (std::abs(v) < 1073741824.0) return fmt::format("{:.2f} MiB", v / 1048576.0);
  return fmt::format("{:.2f} GiB", v / 1073741824.0);
}

std::string to_text(Duration time) {
  const double v = static_cast<double>(time.count());
  if (std::abs(v) < 1e3) return fmt::format("{} ns", time.count());
  if (std::abs(v) < 1e6) return fmt::format("{:.3f} us", v / 1e3);
  if (std::abs(v) < 1e9) return fmt::format("{:.3f} ms", v / 1e6);
  return fmt::format("{:.3f} s", v / 1e9);
}

std::string to_text(Bandwidth rate) {
  const double v = rate.bytes_per_second;
  if (v == 0.0 || v >= 1e7) return fmt::format("{:.2f} GB/s", v / 1e9);
  if (v < 1e3) return fmt::format("{:.3g} B/s", v);
  if (v < 1e6) return fmt::format("{:.2f} kB/s", v / 1e3);
  return fmt::format("{:.2f} MB/s", v / 1e6);
}

std::string to_text(FlopRate rate) {
  return fmt::format("{:.2f} TFLOP/s", rate.flop_per_second / 1e12);
}

std::optional<Duration> from_us(double us) {
  if (!std::isfinite(us) || us < 0.0 || us > 4.6e15) return std::nullopt;
  return Duration{std::llround(us * 1e3)};
}

double to_us(Duration time) { return static_cast<double>(time.count()) / 1e3; }

}  // namespace baechi
