#include "sim/cluster/device_model.h"

#include <cmath>
#include <tuple>

#include "sim/error.h"

namespace baechi {
namespace {

/// Factor on the efficiency of a GEMM whose rows are not aligned.
double alignment_factor(const OpWork& kernel, const DeviceModel& model) {
  constexpr std::int64_t aligned = 16 / 2;  // numbers
  const MatrixShape& m = kernel.matrix;
  const bool gemm = m.kind == MatrixKind::product || m.kind == MatrixKind::prepared_product;
  const bool in_16_bits =
      kernel.precision == Precision::fp16 || kernel.precision == Precision::bf16;
  if (!gemm || !in_16_bits || (m.columns % aligned == 0 && m.inner % aligned == 0)) return 1.0;
  const bool odd = m.columns % 2 != 0 || m.inner % 2 != 0;
  return odd ? model.unaligned : std::sqrt(model.unaligned);
}

struct Efficiencies {
  double peak = 1.0;
  MemoryBoundNumbers memory;
  bool of_kind = false;  ///< `peak` is given for this kind of op
  double half = 0.0;     ///< its half_flops
};

MemoryBoundNumbers memory_numbers(const DeviceModel& model, std::string_view kind) {
  MemoryBoundNumbers numbers = value_of(
      kind, model.passes, MemoryBoundNumbers{.bandwidth_efficiency = model.bandwidth_efficiency});
  if (numbers.launch < 0.0) numbers.launch = to_us(model.launch);
  return numbers;
}

Efficiencies efficiencies_of(const DeviceModel& model, Precision p, std::string_view kind) {
  const Efficiency& efficiency = model.at(p).efficiency;
  return {efficiency.of(kind), memory_numbers(model, kind),
          value_of(kind, efficiency.by_kind, 0.0) > 0.0,
          model.at(p).half_flops * value_of(kind, model.half_by_kind, 1.0)};
}

Duration roofline_time(const OpWork& kernel, const DeviceModel& model,
                       const Efficiencies& reached) {
  double seconds = 0.0;
  const Arithmetic& units = model.at(kernel.precision);
  if (kernel.flops > 0)
    seconds = (static_cast<double>(kernel.flops) + reached.half) /
              (units.peak.flop_per_second * reached.peak * alignment_factor(kernel, model));
  if (kernel.traffic > Bytes{})
    seconds = std::max(
        seconds,
        reached.memory.traffic(static_cast<double>((kernel.traffic + model.half_traffic).count)) /
            model.bandwidth.bytes_per_second);
  return saturated_sum(from_us(reached.memory.launch).value_or(model.launch),
                       Duration{saturated(std::ceil(1e9 * seconds))});
}

/// The numbers of a GEMM whose operands other ops have converted to its dtype: no conversion, and
/// the launch time of a 16-bit GEMM.
ProductNumbers prepared(ProductNumbers numbers, const DeviceModel& model) {
  numbers.quantise = 0.0;
  if (const ProductNumbers& plain = model.at(Precision::bf16).products; plain.efficiency > 0.0)
    numbers.launch = std::min(numbers.launch, plain.launch);
  return numbers;
}

/// Whether a kernel runs alone, as in a benchmark, or in a step under sustained load.
enum class RunsIn : std::uint8_t { benchmark, step };

/// Microseconds by the measured numbers of the device; nothing if it has none for such kernels.
std::optional<double> measured_us(const OpWork& kernel, const DeviceModel& model, RunsIn where) {
  if (kernel.matrix.kind == MatrixKind::none) return std::nullopt;
  const auto traffic = static_cast<double>(kernel.traffic.count);
  const MatrixShape shape = kernel.matrix.filled(kernel.flops);
  const DeviceRates rates = rates_of(model, kernel.precision);
  switch (shape.kind) {
    case MatrixKind::none:
      break;
    case MatrixKind::product:
    case MatrixKind::prepared_product:
      if (ProductNumbers numbers = model.at(kernel.precision).products; numbers.efficiency > 0.0) {
        if (shape.kind == MatrixKind::prepared_product) numbers = prepared(numbers, model);
        if (where == RunsIn::step) numbers = numbers.under_load();
        numbers.efficiency *= alignment_factor(kernel, model);
        return product_us(numbers, rates, shape, traffic);
      }
      break;
    case MatrixKind::attention:
    case MatrixKind::causal_attention:
      // FP8: the same efficiencies, of the FP8 peak.
      if (model.attention.empty() ||
          (kernel.precision != Precision::fp16 && kernel.precision != Precision::bf16 &&
           kernel.precision != Precision::fp8))
        break;
      auto numbers = model.attention.lower_bound(shape.columns);
      if (numbers == model.attention.end()) --numbers;
      return attention_us(numbers->second, rates, shape, traffic);
  }
  return std::nullopt;
}

/// Bits of a weight; 16 for a product of activations, or of a gradient of weights, whose inner
/// length grows with the batch.
double bits_of_weight(const OpWork& kernel, const MatrixShape& m) {
  if (kernel.weights == Bytes{} || kernel.matrix.inner == 0) return 16.0;
  const double numbers =
      static_cast<double>(m.count) * static_cast<double>(m.columns) * static_cast<double>(m.inner);
  return 8.0 * static_cast<double>(kernel.weights.count) / numbers;
}

/// The time of a kernel of few rows with what it moves, by the shares of the device.
struct FewRows {
  bool few = false;  ///< whether it has so few
  Duration time{};
  double slower = 1.0;  ///< factor on the time of more
};
std::optional<FewRows> few_rows(const OpWork& kernel, const DeviceModel& model) {
  if (kernel.precision != Precision::fp16 && kernel.precision != Precision::bf16)
    return std::nullopt;
  const MatrixShape m = kernel.matrix.filled(kernel.flops);
  const bool attention = m.kind == MatrixKind::attention || m.kind == MatrixKind::causal_attention;
  constexpr double few_bits = 7.0, all_bits = 16.0;
  const double bits = attention ? all_bits : bits_of_weight(kernel, m);
  const double whole = std::clamp((bits - few_bits) / (all_bits - few_bits), 0.0, 1.0);
  const double share = attention ? model.attention_decode
                                 : model.gemv.q4 + whole * (model.gemv.fp16 - model.gemv.q4);
  const bool few = m.rows <= GemvNumbers::most_rows;
  if (share <= 0.0 || (attention && !few)) return std::nullopt;
  const double seconds =
      static_cast<double>(kernel.traffic.count) / (share * model.bandwidth.bytes_per_second);
  // Measured products of many rows may have a launch of their own.
  const ProductNumbers& products = model.at(kernel.precision).products;
  Duration launch = model.launch;
  if (!few && products.efficiency > 0.0)
    launch = std::min(launch, from_us(products.launch).value_or(launch));
  return FewRows{.few = few,
                 .time = saturated_sum(launch, Duration{saturated(std::ceil(1e9 * seconds))}),
                 .slower = bits < 12.0 ? 1.0 / model.gemv.unpacked : 1.0};
}

std::optional<Duration> measured_time(const OpWork& kernel, const DeviceModel& model,
                                      RunsIn where) {
  const std::optional<double> us = measured_us(kernel, model, where);
  return us ? std::optional(Duration{saturated(std::ceil(1e3 * *us))}) : std::nullopt;
}

/// Times of a graph's kernels, cached by kind and by shape.
class KernelTimes {
 public:
  KernelTimes(const OpGraph& graph, const DeviceModel& model)
      : graph_(graph), model_(model), reached_(graph.kinds().size()) {}

  Duration time(OpId v, const OpWork& kernel) {
    auto& known = reached_[graph_.op(v).kind][static_cast<std::size_t>(kernel.precision)];
    if (!known) known = efficiencies_of(model_, kernel.precision, graph_.kind(v));
    const std::optional<FewRows> few = kernel.matrix.kind == MatrixKind::none || known->of_kind
                                           ? std::nullopt
                                           : few_rows(kernel, model_);
    if (few && few->few) return few->time;
    const Duration time = time_of_many(kernel, *known);
    return few ? std::max(few->time,
                          Duration{saturated(few->slower * static_cast<double>(time.count()))})
               : time;
  }

 private:
  Duration time_of_many(const OpWork& kernel, const Efficiencies& known) {
    if (kernel.matrix.kind != MatrixKind::none && !known.of_kind) {
      const MatrixShape& m = kernel.matrix;
      const auto [it, fresh] =
          measured_.try_emplace({kernel.flops, kernel.traffic, kernel.precision, m.kind, m.count,
                                 m.rows, m.columns, m.inner});
      if (fresh) it->second = measured_time(kernel, model_, RunsIn::step);
      if (it->second) return *it->second;
    }
    return roofline_time(kernel, model_, known);
  }

  const OpGraph& graph_;
  const DeviceModel& model_;
  using Shape = std::tuple<std::int64_t, Bytes, Precision, MatrixKind, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t>;
  std::map<Shape, std::optional<Duration>> measured_;
  /// [kinds of the graph], by Precision
  std::vector<std::array<std::optional<Efficiencies>, all<Precision>().size()>> reached_;
};

void check_format(const DeviceModel& model, Precision p, std::string_view op) {
  if (model.at(p).peak > FlopRate{}) return;
  std::vector<std::string_view> known;
  for (const Precision q : all<Precision>())
    if (model.arithmetic[static_cast<std::size_t>(q)].peak > FlopRate{})
      known.push_back(to_text(q));
  throw InputError(fmt::format("op '{}' computes in {}, of which {} has no peak (peaks: {})", op,
                               to_text(p), model.name, fmt::join(known, ", ")));
}

}  // namespace

double MemoryBoundNumbers::traffic(double bytes) const {
  const double hit = cache > 0.0 ? std::clamp(2.0 - bytes / cache, 0.0, 1.0) : 0.0;
  return bytes * (hit / cached + (1.0 - hit) / bandwidth_efficiency);
}

const Arithmetic& DeviceModel::at(Precision p) const {
  const Arithmetic& own = arithmetic[static_cast<std::size_t>(p)];
  return p == Precision::tf32 && own.peak == FlopRate{} ? at(Precision::fp32) : own;
}

DeviceRates rates_of(const DeviceModel& model, Precision p) {
  return {.flops = model.at(p).peak.flop_per_second / 1e6,
          .bytes = model.bandwidth.bytes_per_second / 1e6,
          .processors = static_cast<double>(model.processors)};
}

Duration kernel_time(const OpWork& kernel, const DeviceModel& model, std::string_view kind) {
  const Efficiencies reached = efficiencies_of(model, kernel.precision, kind);
  if (!reached.of_kind)
    if (const auto measured = measured_time(kernel, model, RunsIn::benchmark)) return *measured;
  return roofline_time(kernel, model, reached);
}

IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model) {
  KernelTimes kernel_times(graph, model);
  IdVector<OpId, Duration> times(graph.num_ops(), model.no_kernel);
  for (const Collective& c : graph.collectives())
    for (const OpId member : c.member_ids()) times[member] = Duration::zero();
  for (const OpId v : graph.ops()) {
    const auto kernels = graph.kernels(v);
    if (!kernels.empty()) times[v] = Duration::zero();
    for (const OpWork& kernel : kernels) {
      if (kernel.flops > 0) check_format(model, kernel.precision, graph.name(v));
      times[v] = saturated_sum(times[v], kernel_times.time(v, kernel));
      constexpr Duration most = std::chrono::hours(24 * 365 * 146);
      if (times[v] >= most)
        throw InputError(fmt::format(
            "op '{}' takes more than 146 years on {}: a kernel of {} flops and {} bytes",
            graph.name(v), model.name, kernel.flops, kernel.traffic.count));
    }
  }
  return times;
}

Bound bound_by_work(const OpGraph& graph, OpId op, const DeviceModel& model) {
  if (graph.kernels(op).empty()) return Bound::host;
  double launches = 0.0, arithmetic = 0.0, traffic = 0.0;  // seconds
  for (const OpWork& kernel : graph.kernels(op)) {
    const Efficiencies reached = efficiencies_of(model, kernel.precision, graph.kind(op));
    launches += reached.memory.launch / 1e6;
    const double rate = model.at(kernel.precision).peak.flop_per_second * reached.peak;
    if (kernel.flops > 0 && rate > 0.0)
      arithmetic += (static_cast<double>(kernel.flops) + reached.half) / rate;
    if (kernel.traffic > Bytes{})
      traffic +=
          reached.memory.traffic(static_cast<double>((kernel.traffic + model.half_traffic).count)) /
          model.bandwidth.bytes_per_second;
  }
  if (launches > arithmetic && launches > traffic) return Bound::host;
  return arithmetic >= traffic ? Bound::compute : Bound::memory;
}

}  // namespace baechi
