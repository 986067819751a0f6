/// Importers read a trace from a file. Each format is a file in import/ and a row in registry.cpp.
#pragma once
#include "traces/trace.h"

namespace baechi {

class TextFile;

using LooksLike = bool(std::string_view beginning);
using ReadFile = Trace(TextFile& file, Options& options);
struct ImporterEntry {
  std::string_view name;     ///< as written in a scenario or after --importer
  std::string_view summary;  ///< one line for `list importers`
  std::string_view files;    ///< what a file of this format looks like
  /// Whether a file with this beginning has this format. Cheap; does not throw.
  LooksLike* recognises;
  /// Throws InputError, with path:line:column if the format has lines.
  ReadFile* read;
  bool binary = false;  ///< whether its files may be binary
};
std::span<const ImporterEntry> importers();

/// Reads the file at `path` (gzip and zstd are decompressed). If `importer` is "", it is chosen by
/// content. Throws InputError if the file is missing or malformed, its format is unknown, or an
/// option is invalid.
Trace read_trace(const std::string& path, std::string_view importer = {}, Options options = {});

/// Throws InputError, "PATH: not WANTED, but KIND: what takes it", if the file is known to be of
/// another kind than `wanted`, such as "a scenario". Does not advance the file.
void require_kind(const TextFile& file, std::string_view wanted);

/// The same for an open file or a text in memory.
Trace read_trace(TextFile& file, std::string_view importer = {}, Options options = {});

}  // namespace baechi
