/// Our own trace format, `baechi-trace` version 1: the page traces/README.md is its reference.
#pragma once
#include <string>

#include "sim/options.h"
#include "traces/format/compressed_file.h"
#include "traces/trace.h"

namespace baechi {

/// The file's text. Reading it gives an equal graph, and writing that gives the same text. What it
/// cannot say: the order in which data edges and control edges were added among each other, and the
/// labels that were merged into a group (one is written).
std::string trace_json(const Trace& trace);

/// Compressed if `path` ends in .gz or .zst; written aside and renamed. Throws InputError if it
/// cannot be written.
void write_trace(const Trace& trace, const std::string& path);

/// The importer `baechi`; it has no options. Throws InputError with every mistake it can find.
Trace read_baechi_trace(TextFile& file, Options& options);
bool looks_like_baechi_trace(std::string_view beginning);

}  // namespace baechi
