/// Reads and writes our own trace format, `baechi-trace` version 1; traces/README.md specifies it.
#pragma once
#include <string>

#include "sim/options.h"
#include "traces/format/compressed_file.h"
#include "traces/trace.h"

namespace baechi {

/// `trace` as the text of a file. Reading the text gives an equal graph, and writing that graph
/// gives the same text. Two facts are not in the text:
/// - how the additions of data edges and of control edges alternated,
/// - all labels of a merged colocation group but one.
std::string trace_json(const Trace& trace);

/// Writes trace_json(trace) to `path`, compressed if the name ends in .gz or .zst. The write is
/// atomic. Throws InputError if the file cannot be written.
void write_trace(const Trace& trace, const std::string& path);

/// The importer `baechi`, which has no options. Throws InputError with every mistake it finds.
Trace read_baechi_trace(TextFile& file, Options& options);
bool looks_like_baechi_trace(std::string_view beginning);

}  // namespace baechi
