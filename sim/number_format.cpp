#include "sim/number_format.h"

#include <algorithm>

#include "sim/error.h"
#include "sim/text.h"

namespace baechi {
namespace {

/// GGUF: llama.cpp, ggml/src/ggml-common.h; `otherwise`: src/llama-quant.cpp. Others: bits of a
/// group's numbers, a scale of 16 bits and a zero of as many bits as a number. bitsandbytes: a
/// scale of 32 bits for 64 numbers; nf4_double: of 8, and one of 32 for 256 of them (Dettmers et
/// al., "QLoRA", NeurIPS 2023, section 3). int8: Dettmers et al., "LLM.int8()", NeurIPS 2022.
constexpr auto formats = std::to_array<NumberFormat>({
    {"f32", 4, 1, 0, true},
    {"f16", 2, 1, 0, true},
    {"bf16", 2, 1, 0, true},
    {"q8_0", 34, 32, 0, true, "f16"},
    {"q6_k", 210, 256, 0, true, "q8_0"},
    {"q5_k", 176, 256, 0, true, "q5_1"},
    {"q5_0", 22, 32, 0, true, "f16"},
    {"q5_1", 24, 32, 0, true, "f16"},
    {"q4_k", 144, 256, 0, true, "q5_0"},
    {"q4_0", 18, 32, 0, true, "f16"},
    {"q4_1", 20, 32, 0, true, "f16"},
    {"mxfp4", 17, 32, 0, true, "f16"},
    {"nvfp4", 36, 64, 0, true, "f16"},
    {"q3_k", 110, 256, 0, true, "iq4_nl"},
    {"iq3_s", 110, 256, 0, true, "iq4_nl"},
    {"iq3_xxs", 98, 256, 0, true, "iq4_nl"},
    {"q2_k", 84, 256, 0, true, "iq4_nl"},
    {"iq4_xs", 136, 256, 0, true, "iq4_nl"},
    {"iq4_nl", 18, 32, 0, true, "f16"},
    {"iq2_xxs", 66, 256, 0, true, "iq4_nl"},
    {"iq2_xs", 74, 256, 0, true, "iq4_nl"},
    {"iq2_s", 82, 256, 0, true, "iq4_nl"},
    {"iq1_s", 50, 256, 0, true, "iq4_nl"},
    {"iq1_m", 56, 256, 0, true, "iq4_nl"},
    {"fp32", 4},
    {"fp16", 2},
    {"int8", 1, 1, 4},
    {"fp8", 1},
    {"fp8_channel", 1, 1, 4},
    {"fp8_block", 16'384 + 4, 16'384},
    {"gptq", 133, 256},
    {"gptq_64", 69, 128},
    {"gptq_32", 37, 64},
    {"awq", 133, 256},
    {"awq_64", 69, 128},
    {"awq_32", 37, 64},
    {"nf4", 36, 64},
    {"fp4", 36, 64},
    {"nf4_double", 8192 + 256 + 4, 16'384},
});

/// Source: llama.cpp, src/llama-quant.cpp (llama_tensor_get_type).
constexpr auto mixtures =
    std::to_array<WeightFormat>({{"q4_k_m", "q4_k", "q6_k", "q5_k", "q8_0", "q5_k"},
                                 {"q5_k_m", "q5_k", "q6_k", "q5_k", "q8_0", "q5_k"}});

}  // namespace

Bytes NumberFormat::of(std::int64_t rows, std::int64_t columns) const {
  if (gguf && columns % block != 0) return find_number_format(otherwise)->of(rows, columns);
  const std::int64_t numbers = rows * columns, left = numbers % block;
  return {numbers / block * bytes + (left * bytes + block - 1) / block + row * rows};
}

const NumberFormat* find_number_format(std::string_view name) {
  const auto found = std::ranges::find(formats, lower(name), &NumberFormat::name);
  return found == formats.end() ? nullptr : &*found;
}

const NumberFormat& WeightFormat::at(const WeightPlace& p) const {
  const bool values = p.tensor == "v_proj", last = p.tensor == "down_proj";
  const std::int64_t eighth = p.layers / 8;
  const bool more_bits =
      p.layer < eighth || p.layer >= 7 * p.layers / 8 || (p.layer - eighth) % 3 == 2;
  std::string_view format = base;
  if (p.experts == 8 && !keys_of_8.empty() && (values || p.tensor == "k_proj"))
    format = keys_of_8;
  else if (p.experts == 8 && !output_of_8.empty() && p.tensor == "o_proj")
    format = output_of_8;
  else if (!more.empty() && (p.tensor == "lm_head" || ((values || last) && more_bits)))
    format = more;
  else if (!values_70b.empty() && values && p.layers == 80 && p.shared_keys)
    format = values_70b;
  return *find_number_format(format);
}

std::optional<WeightFormat> find_weight_format(std::string_view name) {
  const auto mixture = std::ranges::find(mixtures, lower(name), &WeightFormat::name);
  if (mixture != mixtures.end()) return *mixture;
  const NumberFormat* one = find_number_format(name);
  return one == nullptr ? std::nullopt : std::optional(WeightFormat{one->name, one->name});
}

std::string weight_format_names() {
  std::string names;
  for (const NumberFormat& one : formats) names += fmt::format("{}, ", one.name);
  for (const WeightFormat& one : mixtures) names += fmt::format("{}, ", one.name);
  return names.substr(0, names.size() - 2);
}

}  // namespace baechi
