#include "validate/published/kernel_files.h"

#include <fmt/format.h>

#include <array>

#include "scenarios/read/device_table.h"
#include "sim/error.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

/// "h100" for "h100_sxm". Throws InputError if no kind of device has that name.
std::string device_kind_of(std::string_view system) {
  for (const std::string_view suffix : {"_sxm", "_server"})
    if (system.ends_with(suffix)) system.remove_suffix(suffix.size());
  if (built_in_devices().devices.contains(std::string(system))) return std::string(system);
  throw InputError(fmt::format("no kind of device '{}'", system));
}

struct Format {
  std::string_view name;
  Precision precision;
  double bytes;  ///< of a number of the factors, with its part of the scales
};
constexpr std::array<Format, 3> formats_of_products{{{"bfloat16", Precision::bf16, 2.0},
                                                     {"fp8", Precision::fp8, 1.0},
                                                     {"nvfp4", Precision::fp4, 0.5625}}};

const Format& format_of(std::string_view name) {
  for (const Format& format : formats_of_products)
    if (format.name == name) return format;
  throw InputError(fmt::format("no kind has numbers for the format '{}'", name));
}

}  // namespace

std::vector<MeasuredKernel> measured_products(const std::string& folder, Leftovers& left) {
  std::vector<MeasuredKernel> kernels;
  const auto table = read_packed(folder, "measured/aiconfigurator/gemm.csv", left);
  if (!table) return kernels;
  const std::size_t system = table->column("system"), dtype = table->column("dtype"),
                    rows = table->column("m"), columns = table->column("n"),
                    inner = table->column("k"), ms = table->column("ms");
  each_row(*table, left, [&](std::size_t row) {
    const std::int64_t m = table->whole(row, rows, 1), n = table->whole(row, columns, 1),
                       k = table->whole(row, inner, 1);
    const Format& format = format_of(table->text(row, dtype));
    const double factors = format.bytes * static_cast<double>(m * k + k * n);
    kernels.push_back(
        {.kind = device_kind_of(table->text(row, system)),
         .group = std::string(to_text(format.precision)),
         .what = fmt::format("{} {} {} x {} x {}", table->text(row, system), format.name, m, n, k),
         .key = fmt::format("{} x {}", n, k),
         .work = {.flops = 2 * m * n * k,
                  .traffic = Bytes{static_cast<std::int64_t>(factors) + 2 * m * n},
                  .precision = format.precision,
                  .matrix = {MatrixKind::product, 1, m, n, k}},
         .us = 1e3 * table->number(row, ms, 1e-6),
         .line = line_of(*table, row)});
  });
  return kernels;
}

std::vector<MeasuredKernel> measured_attention(const std::string& folder, Leftovers& left) {
  std::vector<MeasuredKernel> kernels;
  const auto table = read_packed(folder, "measured/aiconfigurator/attention_forward.csv", left);
  if (!table) return kernels;
  const std::size_t system = table->column("system"), batch = table->column("batch"),
                    sequence = table->column("sequence"), heads = table->column("heads"),
                    kv_heads = table->column("kv_heads"), head_dim = table->column("head_dim"),
                    ms = table->column("ms");
  each_row(*table, left, [&](std::size_t row) {
    const std::int64_t b = table->whole(row, batch, 1), length = table->whole(row, sequence, 1),
                       h = table->whole(row, heads, 1), kv = table->whole(row, kv_heads, 1),
                       d = table->whole(row, head_dim, 1);
    kernels.push_back(
        {.kind = device_kind_of(table->text(row, system)),
         .group = fmt::format("{}", d),
         .what = fmt::format("{}, batch {}, {} tokens, {} heads of {}, {} of keys",
                             table->text(row, system), b, length, h, d, kv),
         .key = fmt::format("{} {} {}", h, kv, d),
         .work = {.flops = 4 * b * h * length * length * d,
                  .traffic = Bytes{4 * b * length * (h + kv) * d},
                  .precision = Precision::bf16,
                  .matrix = {MatrixKind::causal_attention, 2 * b * h, length, d, length}},
         .us = 1e3 * table->number(row, ms, 1e-6),
         .line = line_of(*table, row)});
  });
  return kernels;
}

std::vector<MeasuredKernel> measured_passes(const std::string& folder, Leftovers& left) {
  std::vector<MeasuredKernel> kernels;
  const auto table = read_packed(folder, "measured/vidur/ops.csv", left);
  if (!table) return kernels;
  const std::size_t gpu = table->column("gpu"), tokens = table->column("tokens"),
                    hidden = table->column("hidden"), ffn = table->column("ffn"),
                    ranks = table->column("tp"), heads = table->column("n_head"),
                    kv_heads = table->column("n_kv_head"), gated = table->column("gated"),
                    model = table->column("model");
  each_row(*table, left, [&](std::size_t row) {
    const std::int64_t t = table->whole(row, tokens, 1), d = table->whole(row, hidden, 1),
                       tp = table->whole(row, ranks, 1), f = table->whole(row, ffn, 1) / tp,
                       h = table->whole(row, heads, 1);
    const std::int64_t turned = d / h * (h + table->whole(row, kv_heads, 1)) / tp;
    const bool gates = table->text(row, gated) == "True";
    const std::string_view norm = gates ? "RMSNorm" : "LayerNorm";
    struct Pass {
      std::string_view column, kind;  ///< of an op of the generators
      std::int64_t numbers;
    };
    // Passes over 16-bit numbers as the generators count them: a norm reads its input twice.
    const Pass passes[] = {{"input_layernorm_ms", norm, 3 * d},
                           {"post_attention_layernorm_ms", norm, 3 * d},
                           {"attn_rope_ms", "RotaryEmbedding", 2 * turned},
                           {"mlp_act_ms", gates ? "GatedSiLU" : "GELU", (gates ? 3 : 2) * f},
                           {"add_ms", "Add", 3 * d}};
    for (const auto& [column, kind, numbers] : passes) {
      const std::size_t at = table->column(column);
      if (table->text(row, at).empty() || table->text(row, at) == "0.0") continue;
      kernels.push_back({.kind = device_kind_of(table->text(row, gpu)),
                         .group = std::string(kind),
                         .what = fmt::format("{} {}", table->text(row, gpu), column),
                         .key = std::string(table->text(row, model)),
                         .work = {.traffic = Bytes{2 * t * numbers}, .precision = Precision::fp16},
                         .us = 1e3 * table->number(row, at, 1e-6),
                         .line = line_of(*table, row)});
    }
  });
  return kernels;
}

}  // namespace baechi::validate
