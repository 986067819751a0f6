#include "validate/calibrate.h"

#include <cmath>
#include <filesystem>
#include <tuple>

#include "scenarios/read/sections.h"
#include "validate/statistics.h"

namespace baechi::validate {
namespace {

constexpr double largest_line_residual = 0.10;
constexpr double largest_left_out_error = 0.03;

/// Samples of one value each of what is varied.
using BySize = std::map<double, Samples>;

/// Fields of Measurement::args as numbers; nothing if they are not such.
std::optional<std::vector<double>> numbers_in(const std::string& args) {
  std::vector<double> all;
  for (const Field& field : split(args, ' ')) {
    const auto n = parse_number<std::int64_t>(field.text);
    if (!n || *n < 0 || *n > most_number) return std::nullopt;
    all.push_back(static_cast<double>(*n));
  }
  return all;
}

/// The numbers of a row whose arguments are known to be numbers.
std::vector<double> known_numbers(const std::string& args) {
  return numbers_in(args).value_or(std::vector<double>{0.0, 0.0, 0.0});
}

/// Work of a body as Body::amount; nothing if `args` are not its arguments.
std::optional<double> amount_of(const std::string& kind, const std::string& args) {
  const auto n = numbers_in(args);
  if (!n || n->size() != (kind == "cublas" ? 3U : 1U)) return std::nullopt;
  if (kind == "gemm") return 2.0 * (*n)[0] * (*n)[0] * (*n)[0];
  if (kind == "cublas") return 2.0 * (*n)[0] * (*n)[1] * (*n)[2];
  return (*n)[0];
}

/// The mode that an op's time depends on: between the kernels of a cublas op are gaps. Empty: none.
std::string mode_of_time(const Measurement& m) { return m.subject == "cublas" ? m.mode : ""; }

/// Line through the medians, its residuals, and whether each size follows from the others.
struct SizeFit {
  std::vector<double> sizes;
  Samples medians;
  Line line;
  double worst_residual = 0.0;
  double left_out_of_line = 0.0, left_out_of_table = 0.0;
};

std::vector<std::pair<double, double>> table_without(const SizeFit& fit, std::size_t left_out) {
  std::vector<std::pair<double, double>> table;
  for (std::size_t i = 0; i < fit.sizes.size(); ++i)
    if (i != left_out) table.emplace_back(fit.sizes[i], fit.medians[i]);
  return table;
}

SizeFit fit_sizes(const BySize& by_size) {
  SizeFit fit;
  for (const auto& [size, samples] : by_size) {
    fit.sizes.push_back(size);
    fit.medians.push_back(median(samples));
  }
  fit.line = relative_line(fit.sizes, fit.medians);
  const auto error = [&](std::size_t i, double predicted) {
    return std::abs(predicted / fit.medians[i] - 1.0);
  };
  for (std::size_t i = 0; i < fit.sizes.size(); ++i)
    fit.worst_residual = std::max(fit.worst_residual, error(i, fit.line(fit.sizes[i])));
  for (std::size_t i = 1; i + 1 < fit.sizes.size(); ++i) {  // the ends would be extrapolated
    const auto others = table_without(fit, i);
    Samples x, y;
    for (const auto& [size, time] : others) {
      x.push_back(size);
      y.push_back(time);
    }
    fit.left_out_of_line =
        std::max(fit.left_out_of_line, error(i, relative_line(x, y)(fit.sizes[i])));
    const FittedTime table{.table = others};
    fit.left_out_of_table = std::max(fit.left_out_of_table, error(i, table(fit.sizes[i])));
  }
  return fit;
}

/// The fixed part and the slope of the line, with intervals.
FittedTime line_with_intervals(const BySize& by_size) {
  std::vector<Samples> groups;
  Samples sizes;
  for (const auto& [size, samples] : by_size) {
    sizes.push_back(size);
    groups.push_back(samples);
  }
  const auto line = [&](const std::vector<Samples>& g) {
    Samples medians;
    for (const Samples& samples : g) medians.push_back(median(samples));
    return relative_line(sizes, medians);
  };
  FittedTime time;
  time.fixed_ns = bootstrap(groups, [&](const auto& g) { return line(g).fixed; });
  time.ns_per_unit = bootstrap(groups, [&](const auto& g) { return line(g).slope; });
  time.least = sizes.front();
  time.most = sizes.back();
  return time;
}

class Calibrator {
 public:
  Calibrator(const Machine& machine, const std::vector<Measurement>& rows, const std::string& path)
      : rows_(rows), path_(path) {
    result_.gpu = machine.gpu;
    result_.driver = machine.driver;
    result_.cuda = machine.cuda;
    result_.harness = machine.harness;
    result_.date = machine.date;
    result_.sms = machine.sms;
    result_.timer_tick_ns = machine.timer_tick_ns;
    result_.partitions = machine.partitions;
  }

  Calibration run() {
    check_rows();
    fit_modes();
    fit_transfers();
    fit_ops();
    fit_interference();
    result_.bandwidth = fit_bandwidth(rows_, result_);
    return std::move(result_);
  }

 private:
  void check_rows() const {
    static const std::set<std::string> known{"gap_same",   "gap_cross",    "submit",    "copy",
                                             "contention", "interference", "granule",   "op",
                                             "order",      "canary",       "gap_fan_in"};
    Mistakes mistakes;
    std::size_t wrong = 0, line = 1;
    bool gaps = false;
    for (const Measurement& m : rows_) {
      ++line;
      std::string what;
      const bool copies = m.what == "copy" || m.what == "contention" || m.what == "order";
      const bool ops = m.what == "op" || m.what == "interference" ||
                       (m.what == "gap_same" && !m.subject.empty());
      const auto args = numbers_in(m.args);
      if (!known.contains(m.what))
        what = fmt::format("'{}' is no measurement (those: {})", m.what, fmt::join(known, ", "));
      else if (copies && (!args || args->size() != (m.way == "link" ? 2U : 1U) || m.count < 1))
        what = m.way == "link" ? "it needs 'BYTES NS' and a count" : "it needs 'BYTES' and a count";
      else if (ops && !amount_of(m.subject, m.args))
        what = fmt::format("'{}' are no arguments of '{}'", m.args, m.subject);
      else if (m.what == "interference" && m.count < 1)
        what = "it needs a count of neighbours";
      else if (((copies && m.what != "order") || m.what == "op" || m.what == "interference") &&
               m.value <= 0.0)
        what = "a time of no length";
      gaps = gaps || m.what == "gap_same";
      if (!what.empty() && ++wrong <= 20)
        mistakes.add(fmt::format("{}:{}:1: {}", path_, line, what));
    }
    if (!gaps) mistakes.add(fmt::format("{}: no line says 'gap_same'", path_));
    mistakes.throw_if_any();
  }

  Samples values(const auto& wanted) const {
    Samples samples;
    for (const Measurement& m : rows_)
      if (wanted(m)) samples.push_back(m.value);
    return samples;
  }

  void fit_modes() {
    for (const char* name : {"graph", "stream"}) {
      const auto of = [&](std::string_view what) {
        return values([&](const Measurement& m) {
          return m.what == what && m.mode == name && (m.subject.empty() || what == "submit");
        });
      };
      const Samples same = of("gap_same"), cross = of("gap_cross"), submit = of("submit");
      if (same.empty()) continue;
      Calibration::Mode mode{.mode = name};
      mode.same_ns = bootstrap(same, trimmed_mean);
      if (!cross.empty()) mode.cross_ns = bootstrap(cross, trimmed_mean);
      if (!submit.empty()) mode.submit_ns = bootstrap(submit, median);
      if (const Samples fan_in = of("gap_fan_in"); !fan_in.empty())
        mode.fan_in_ns = bootstrap(fan_in, trimmed_mean);
      std::map<std::string, Samples> after;
      for (const Measurement& m : rows_)
        if (m.what == "gap_same" && m.mode == name && !m.subject.empty())
          after[m.subject].push_back(m.value);
      for (const auto& [kind, gaps] : after)
        mode.after.push_back({kind, bootstrap(gaps, trimmed_mean)});
      result_.modes.push_back(mode);
    }
  }

  void fit_transfers() {
    std::set<std::tuple<std::string, std::string, std::string>> kinds;
    for (const Measurement& m : rows_)
      if (m.what == "copy") kinds.emplace(m.mode, m.way, m.subject);
    for (const auto& [mode, way, direction] : kinds) {
      Calibration::Transfer t{.mode = mode, .way = way, .direction = direction};
      t.paced = way == "link";
      fit_latency(t);
      fit_occupancy(t);
      fit_contention(t);
      result_.transfers.push_back(std::move(t));
    }
  }

  static bool is_of(const Measurement& m, std::string_view what, const Calibration::Transfer& t) {
    return m.what == what && m.mode == t.mode && m.way == t.way && m.subject == t.direction;
  }

  /// For a link: from what it takes beyond its pace; else from the line over the sizes.
  void fit_latency(Calibration::Transfer& t) {
    BySize by_size;  // unpaced
    Samples beyond;
    for (const Measurement& m : rows_) {
      if (!is_of(m, "copy", t) || m.count != 1) continue;
      const auto args = known_numbers(m.args);
      if (t.paced && args[1] > 0.0)
        beyond.push_back(m.value - args[1]);
      else
        by_size[args[0]].push_back(m.value);
    }
    if (!by_size.empty()) {
      const SizeFit fit = fit_sizes(by_size);
      t.time = line_with_intervals(by_size);
      t.time.worst_residual = fit.worst_residual;
      t.latency_ns = t.time.fixed_ns;
      t.time.fixed_ns = {};
      if (fit.worst_residual > largest_line_residual) {
        const auto least =
            static_cast<std::size_t>(std::ranges::min_element(fit.medians) - fit.medians.begin());
        t.latency_ns = bootstrap(by_size.at(fit.sizes[least]), median);
        for (std::size_t i = 0; i < fit.sizes.size(); ++i)
          t.time.table.emplace_back(fit.sizes[i],
                                    std::max(fit.medians[i] - t.latency_ns.value, 1.0));
      }
    }
    if (!beyond.empty()) t.latency_ns = bootstrap(beyond, trimmed_mean);
  }

  /// k transfers in a row take latency + (k - 1) occupancies + the time that all bytes move.
  void fit_occupancy(Calibration::Transfer& t) const {
    Samples each;
    for (const Measurement& m : rows_) {
      if (!is_of(m, "copy", t) || m.count < 2) continue;
      const auto args = known_numbers(m.args);
      if (t.paced && args[1] <= 0.0) continue;
      const double moving = std::max(t.time(args[0]), t.paced ? args[1] : 0.0);
      const auto k = static_cast<double>(m.count);
      each.push_back((m.value - t.latency_ns.value - k * moving) / (k - 1.0));
    }
    t.occupancy_ns = each.empty() ? t.latency_ns : bootstrap(each, median);
  }

  /// How much longer the last of k takes that start together: k times if they share a channel.
  void fit_contention(Calibration::Transfer& t) const {
    std::map<std::int64_t, Samples> by_count;  // at the largest size
    double largest = 0.0;
    for (const Measurement& m : rows_)
      if (is_of(m, "contention", t)) largest = std::max(largest, known_numbers(m.args).front());
    for (const Measurement& m : rows_)
      if (is_of(m, "contention", t) && known_numbers(m.args).front() == largest)
        by_count[m.count].push_back(m.value);
    if (by_count.size() < 2 || by_count.begin()->first != 1) return;
    const auto& [count, samples] = *by_count.rbegin();
    t.contention = median(samples) / median(by_count.begin()->second);
    t.shared = (t.contention - 1.0) / static_cast<double>(count - 1) >= 0.5;
    if (!t.shared) return;
    Samples each, waited;
    // The time that one more transfer adds to two; to one, if there are only two.
    const auto base = by_count.size() > 2 ? std::next(by_count.begin()) : by_count.begin();
    for (auto more = std::next(base); more != by_count.end(); ++more)
      for (const double total : more->second)
        each.push_back((total - median(base->second)) /
                           static_cast<double>(more->first - base->first) -
                       t.time(largest));
    t.channel_ns = bootstrap(each, median);
    for (const Measurement& m : rows_)
      if (is_of(m, "order", t)) waited.push_back(m.value);
    t.in_order = !waited.empty() && median(waited) > 0.0;
  }

  void fit_ops() {
    std::map<std::pair<std::string, std::string>, BySize> by_kind;  // and mode
    for (const Measurement& m : rows_)
      if (m.what == "op")
        by_kind[{m.subject, mode_of_time(m)}][amount_of(m.subject, m.args).value_or(0.0)].push_back(
            m.value);
    for (const auto& [kind_and_mode, by_size] : by_kind) {
      const SizeFit fit = fit_sizes(by_size);
      Calibration::OpTime op{.kind = kind_and_mode.first,
                             .mode = kind_and_mode.second,
                             .time = line_with_intervals(by_size)};
      op.time.worst_residual = fit.worst_residual;
      op.left_out_error = fit.left_out_of_line;
      const bool line_fits = fit.left_out_of_line <= largest_left_out_error &&
                             fit.worst_residual <= largest_left_out_error;
      if (!line_fits) {
        op.time.table = table_without(fit, fit.sizes.size());
        op.left_out_error = fit.left_out_of_table;
      }
      result_.ops.push_back(std::move(op));
    }
  }

  void fit_interference() {
    using Key = std::tuple<std::string, std::string, std::string>;  // subject, args, its mode
    std::map<Key, Samples> alone;
    std::map<std::pair<Key, std::string>, std::map<std::int64_t, Samples>> together;  // and against
    for (const Measurement& m : rows_) {
      const Key key{m.subject, m.args, mode_of_time(m)};
      if (m.what == "op") alone[key].push_back(m.value);
      if (m.what == "interference") together[{key, m.against}][m.count].push_back(m.value);
    }
    std::map<std::pair<std::string, std::string>, std::vector<Estimate>> found;
    for (const auto& [key, by_count] : together) {
      const auto& [op, against] = key;
      const auto base = alone.find(op);
      if (base == alone.end()) continue;
      for (const auto& [count, samples] : by_count) {
        const auto neighbours = static_cast<double>(count);
        found[{std::get<0>(op), against}].push_back(
            bootstrap(std::vector<Samples>{base->second, samples},
                      [neighbours](const std::vector<Samples>& g) {
                        return (median(g[1]) / median(g[0]) - 1.0) / neighbours;
                      }));
      }
    }
    for (const auto& [pair, estimates] : found) {
      Estimate mean;
      const auto n = static_cast<double>(estimates.size());
      for (const Estimate& e : estimates) {
        mean.value += e.value / n;
        mean.low += e.low / n;
        mean.high += e.high / n;
      }
      result_.interference.push_back(
          {.op = pair.first, .neighbour = pair.second, .per_neighbour = mean});
    }
  }

  const std::vector<Measurement>& rows_;
  const std::string& path_;
  Calibration result_;
};

constexpr double slowed_from = 1.03;  // times as long as alone
constexpr std::string_view memory_pass = "ew";

/// The median of some rows of one subject beside `count` ops of a kind.
struct Beside {
  std::string subject, against;
  double count = 0.0;
  double demand = 0.0;    // of the subject alone, if it is a pass over memory; bytes per ns
  double slowdown = 1.0;  // against the subject alone
};

std::vector<Beside> measured_points(const std::vector<Measurement>& rows) {
  std::map<std::pair<std::string, std::string>, Samples> alone;
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t>, Samples> together;
  for (const Measurement& m : rows) {
    if (m.what == "op") alone[{m.subject, m.args}].push_back(m.value);
    if (m.what == "interference")
      together[{m.subject, m.args, m.against, m.count}].push_back(m.value);
  }
  std::vector<Beside> all;
  for (const auto& [key, samples] : together) {
    const auto& [subject, args, against, count] = key;
    const auto base = alone.find({subject, args});
    if (base == alone.end()) continue;
    const double ns = median(base->second);
    const auto bytes = parse_number<std::int64_t>(args);
    all.push_back(
        {.subject = subject,
         .against = against,
         .count = static_cast<double>(count),
         .demand = subject == memory_pass && bytes ? static_cast<double>(*bytes) / ns : 0.0,
         .slowdown = median(samples) / ns});
  }
  return all;
}

/// Bytes per ns of the quickest pass over memory: neighbours run such, or larger ones.
double rate_of_pass(const std::vector<Beside>& all) {
  double rate = 0.0;
  for (const Beside& b : all) rate = std::max(rate, b.demand);
  return rate;
}

struct DemandFit {
  Calibration::Bandwidth bandwidth;
  double pass_rate = 0.0;

  const Calibration::Bandwidth::Demand* find(const std::string& kind) const {
    const auto found =
        std::ranges::find(bandwidth.demands, kind, &Calibration::Bandwidth::Demand::kind);
    return found == bandwidth.demands.end() ? nullptr : &*found;
  }
  double demand_of(const std::string& kind) const {
    const auto* found = find(kind);
    return kind == memory_pass ? pass_rate : found == nullptr ? 0.0 : found->bytes_per_ns;
  }
  double pressure(const Beside& b) const {
    const double own = b.subject == memory_pass ? b.demand : demand_of(b.subject);
    return std::max(1.0, (own + b.count * demand_of(b.against)) / bandwidth.capacity) - 1.0;
  }
  double slowdown(const Beside& b) const {
    const auto* found = find(b.subject);
    return 1.0 + (found == nullptr ? 0.0 : found->sensitivity) * pressure(b);
  }
};

double slowdown_by_pairs(const Beside& b, const Calibration& known) {
  for (const auto& pair : known.interference)
    if (pair.op == b.subject && pair.neighbour == b.against)
      return 1.0 + b.count * std::max(pair.per_neighbour.value, 0.0);
  return 1.0;
}

}  // namespace

Calibration calibrate(const Machine& machine, const std::vector<Measurement>& measurements,
                      const std::string& path) {
  return Calibrator(machine, measurements, path).run();
}

Calibration::Bandwidth fit_bandwidth(const std::vector<Measurement>& rows,
                                     const Calibration& known) {
  const std::vector<Beside> all = measured_points(rows);
  std::set<double> counts;
  for (const Beside& b : all) counts.insert(b.count);
  DemandFit fit{.bandwidth = {}, .pass_rate = rate_of_pass(all)};
  if (counts.size() < 2 || fit.pass_rate <= 0.0) return {};

  Samples capacities;
  for (const Beside& b : all)
    if (b.subject == memory_pass && b.against == memory_pass && b.slowdown > slowed_from)
      capacities.push_back((b.demand + b.count * fit.pass_rate) / b.slowdown);
  if (capacities.empty()) return {};
  fit.bandwidth.capacity = median(capacities);

  std::map<std::string, Samples> demands, sensitivities;
  for (const Beside& b : all) {
    demands[b.subject];
    if (b.subject == memory_pass && b.against != memory_pass && b.slowdown > slowed_from)
      demands[b.against].push_back(
          std::max((b.slowdown * fit.bandwidth.capacity - b.demand) / b.count, 0.0));
  }
  for (const auto& [kind, samples] : demands)
    fit.bandwidth.demands.push_back({.kind = kind,
                                     .bytes_per_ns = kind == memory_pass ? fit.pass_rate
                                                     : samples.empty()   ? 0.0
                                                                         : median(samples)});
  for (const Beside& b : all)
    if (const double pressure = fit.pressure(b); pressure > slowed_from - 1.0)
      sensitivities[b.subject].push_back(std::max((b.slowdown - 1.0) / pressure, 0.0));
  for (auto& demand : fit.bandwidth.demands)
    if (const auto found = sensitivities.find(demand.kind); found != sensitivities.end())
      demand.sensitivity = median(found->second);

  double error = 0.0, error_by_pairs = 0.0;
  for (const Beside& b : all) {
    error += std::abs(fit.slowdown(b) - b.slowdown);
    error_by_pairs += std::abs(slowdown_by_pairs(b, known) - b.slowdown);
  }
  return error <= error_by_pairs ? fit.bandwidth : Calibration::Bandwidth{};
}

Calibration calibration_of(const ValidationRun& run, const std::string& folder,
                           const std::string& file) {
  const std::string own = folder + "/calibration.yaml";
  if (!file.empty()) return read_calibration(file);
  if (std::filesystem::is_regular_file(own)) return read_calibration(own);
  if (!run.machine || run.measurements.empty())
    throw InputError(
        fmt::format("{}: neither calibration.yaml nor machine.txt and measurements.csv", folder));
  return calibrate(*run.machine, run.measurements, folder + "/measurements.csv");
}

}  // namespace baechi::validate
