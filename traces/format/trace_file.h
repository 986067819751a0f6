/// Reads and writes the trace format `baechi-trace` version 1, which traces/README.md specifies.
#pragma once
#include "traces/format/compressed_file.h"
#include "traces/trace.h"

namespace baechi {

/// The file text of `trace`. Reading it gives an equal graph, which gives the same text. Not in the
/// text:
/// - the relative order in which data edges and control edges were added,
/// - all labels of a merged colocation group but one.
std::string trace_json(const Trace& trace);

/// Writes trace_json(trace) to `path`, compressed if the name ends in .gz or .zst. The write is
/// atomic. Throws InputError if the file cannot be written.
void write_trace(const Trace& trace, const std::string& path);

/// The importer `baechi`, which has no options. Throws InputError with all mistakes.
Trace read_baechi_trace(TextFile& file, Options& options);
bool looks_like_baechi_trace(std::string_view beginning);

}  // namespace baechi
