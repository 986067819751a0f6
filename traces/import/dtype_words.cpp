#include "traces/import/dtype_words.h"

#include <string>
#include <utility>

#include "sim/text.h"

namespace baechi {

Precision precision_of_type(std::string_view word) {
  const std::string text = lower(word);
  constexpr std::pair<std::string_view, Precision> words[] = {
      {"bf16", Precision::bf16},    {"bfloat16", Precision::bf16}, {"f16", Precision::fp16},
      {"float16", Precision::fp16}, {"half", Precision::fp16},     {"f8", Precision::fp8},
      {"float8", Precision::fp8},   {"f4", Precision::fp4},        {"float4", Precision::fp4}};
  for (const auto& [part, precision] : words)
    if (text.find(part) != std::string::npos) return precision;
  return Precision::fp32;
}

}  // namespace baechi
