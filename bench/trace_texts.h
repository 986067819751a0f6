/// Traces as texts, for benchmarks of importers.
#pragma once

#include "bench/layered_graph.h"
#include "traces/format/trace_file.h"

namespace baechi::bench {

/// layered(ops) in our own format.
inline std::string native_text(std::int64_t ops) {
  return trace_json({.graph = layered(ops), .name = "layered"});
}

/// A chain of sums, each of the result before and of the parameter.
inline std::string hlo_text(std::int64_t instructions) {
  std::string text =
      "HloModule chain\n\nENTRY %main (p: f32[64,64]) -> f32[64,64] {\n"
      "  %x.0 = f32[64,64]{1,0} parameter(0)\n";
  for (std::int64_t i = 1; i <= instructions; ++i)
    text += fmt::format(
        "  {}%x.{} = f32[64,64]{{1,0}} add(f32[64,64]{{1,0}} %x.{}, f32[64,64]{{1,0}} %x.0)\n",
        i == instructions ? "ROOT " : "", i, i - 1);
  return text + "}\n";
}

/// A step whose host launches a kernel each 10 us, from calls that nest ten deep.
inline std::string kineto_text(std::int64_t kernels) {
  std::string events;
  const auto add = [&](std::string_view category, std::string_view name, std::string_view thread,
                       std::int64_t start, std::int64_t length, std::string_view arguments) {
    events += fmt::format(
        "{}\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", {}, \"ts\": {}, \"dur\": {}{}}}",
        events.empty() ? "" : ",", category, name, thread, start, length, arguments);
  };
  constexpr std::string_view host = "\"pid\": 1, \"tid\": 7", gpu = "\"pid\": 0, \"tid\": 7";
  add("user_annotation", "ProfilerStep#1", host, 0, 10 * kernels + 10, "");
  for (std::int64_t k = 0; k < kernels; ++k) {
    const std::int64_t at = 10 * k;
    if (k % 10 == 0)
      for (int depth = 0; depth < 10; ++depth)
        add("cpu_op", "aten::linear", host, at, 100 - depth, "");
    const std::string launched = fmt::format(", \"args\": {{\"correlation\": {}}}", k + 1);
    add("cuda_runtime", "cudaLaunchKernel", host, at + 1, 5, launched);
    add("kernel", "gemm", gpu, at + 7, 8,
        fmt::format(", \"args\": {{\"device\": 0, \"stream\": 7, \"correlation\": {}}}", k + 1));
  }
  return "{\"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}], \"traceEvents\": [" + events +
         "]}";
}

}  // namespace baechi::bench
