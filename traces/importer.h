/// Importers read a trace from a file. Each format is a file here, and a row in registry.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "sim/options.h"
#include "traces/content.h"
#include "traces/trace.h"

namespace baechi {

class TextFile;

using LooksLike = bool(std::string_view beginning);
using ReadFile = Trace(TextFile& file, Options& options);
struct ImporterEntry {
  std::string_view name;     ///< as written in a scenario or after --importer
  std::string_view summary;  ///< one line for `list importers`
  std::string_view files;    ///< the look of a file of this format
  /// Whether a file with this beginning looks like this format. Cheap; reports no errors.
  LooksLike* recognises;
  /// Throws InputError on anything that it cannot read, with path:line:column where the format has
  /// lines.
  ReadFile* read;
  Content content = Content::text;  ///< only files with Content::any may be binary
};
std::span<const ImporterEntry> importers();

/// The trace in the file at `path` (.gz and .zst are decompressed). With `importer` "", the file's
/// content chooses the importer. Throws InputError if
/// - there is no such file,
/// - no importer knows the format,
/// - the importer cannot read the file, or
/// - the importer has no such option.
Trace read_trace(const std::string& path, std::string_view importer = {}, Options options = {});

/// The same for a file that is already open, or a text in memory; Content::any lets it be binary.
Trace read_trace(TextFile& file, std::string_view importer = {}, Options options = {});

}  // namespace baechi
