/// Reads a file of some format into a graph. One file per format, one row in registry.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "sim/options.h"
#include "traces/trace.h"

namespace baechi {

class TextFile;

struct ImporterEntry {
  std::string_view name;     ///< as written in a scenario or after --importer
  std::string_view summary;  ///< one line for `list importers`
  std::string_view files;    ///< what such a file looks like
  /// Whether a file that begins so looks like this format: cheap, no errors.
  bool (*recognises)(std::string_view beginning);
  /// Throws InputError, with path:line:column where the format has lines, on what it cannot read.
  Trace (*read)(TextFile& file, Options& options);
};
std::span<const ImporterEntry> importers();

/// The graph in the file at `path` (.gz and .zst are decompressed). `importer` "" lets the file's
/// content choose. Throws InputError: no such file, a format no importer knows, what the importer
/// says, or unknown options.
Trace read_trace(const std::string& path, std::string_view importer = {}, Options options = {});

/// The same of a file that is open, or a text in memory.
Trace read_trace(TextFile& file, std::string_view importer = {}, Options options = {});

}  // namespace baechi
