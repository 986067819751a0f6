/// libFuzzer target: bytes as an execution trace, and those after a line "---" as its Kineto trace.
/// An accepted trace must survive a round trip through baechi-trace.

#include "tests/fuzz/written.h"
#include "traces/format/trace_file.h"
#include "traces/import/pytorch/pytorch.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\n---\n");
  const bool timed = end != std::string::npos;
  for (const auto mode :
       {pytorch::Colocate::readers, pytorch::Colocate::updates, pytorch::Colocate::forward}) {
    try {
      TextFile execution("fuzz", text.substr(0, end));
      TextFile kineto("kineto", timed ? text.substr(end + 5) : "");
      TextFile* const times = &kineto;
      const Trace trace =
          pytorch::import_step(execution, std::span(&times, timed ? 1 : 0), {.colocate = mode});
      const std::string written = trace_json(trace);
      const std::string again = testing::read_again(written, [&] {
        TextFile file("written", written);
        return trace_json(read_trace(file, "baechi"));
      });
      BAECHI_CHECK(again == written, "{}", written);
    } catch (const InputError&) {
    }
  }
  return 0;
}
