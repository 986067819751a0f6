#pragma once

#include "tests/fuzz/written.h"
#include "traces/format/trace_file.h"
#include "traces/importer.h"

namespace baechi::testing {

/// Reads `data` with `importer`, which may reject it. An accepted graph must give the same text
/// when it is written, read and written again as baechi-trace.
inline void check_round_trip(const std::uint8_t* data, std::size_t size,
                             std::string_view importer) {
  Trace trace;
  try {
    TextFile file("fuzz", std::string(data, data + size), Content::any);
    trace = read_trace(file, importer);
  } catch (const InputError&) {
    return;
  }
  const std::string written = trace_json(trace);
  const std::string again = read_again(written, [&] {
    TextFile file("written", written);
    return trace_json(read_trace(file, "baechi"));
  });
  BAECHI_CHECK(again == written, "{}\n{}", written, again);
}

}  // namespace baechi::testing
