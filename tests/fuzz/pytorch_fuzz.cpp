/// libFuzzer target: any bytes as an execution trace, and those behind a line "---" as its Kineto
/// trace. What is accepted our own format can say.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/error.h"
#include "traces/format/trace_file.h"
#include "traces/import/pytorch/pytorch.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\n---\n");
  const SourceText execution{.path = "fuzz", .text = text.substr(0, end)};
  const bool timed = end != std::string::npos;
  const SourceText kineto{.path = "kineto", .text = timed ? text.substr(end + 5) : ""};
  for (const auto mode :
       {pytorch::Colocate::readers, pytorch::Colocate::updates, pytorch::Colocate::forward}) {
    try {
      const Trace trace =
          pytorch::import_step(execution, timed ? &kineto : nullptr, {.colocate = mode});
      const std::string written = trace_json(trace);
      const Trace again = read_trace(SourceText{.path = "written", .text = written}, "baechi");
      BAECHI_CHECK(trace_json(again) == written, "{}", written);
    } catch (const InputError&) {
    }
  }
  return 0;
}
