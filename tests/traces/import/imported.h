/// Helpers of the importers' tests, whose files are the seeds of the fuzz targets.
#pragma once
#include "tests/this_build.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi::testing {

inline std::string seed(const std::string& file) {
  return source_dir() + "/tests/fuzz/corpus/" + file;
}

inline Options options(const std::string& owner, const std::map<std::string, std::string>& values) {
  std::map<std::string, Options::Value> given;
  for (const auto& [key, text] : values) given[key] = {.text = text, .where = "", .children = {}};
  return Options(owner, given);
}

inline Trace imported(const std::string& path, const std::string& importer,
                      const std::map<std::string, std::string>& words = {}) {
  return read_trace(path, importer, options(importer, words));
}

/// Whether a note of the trace has this prefix.
inline bool has_note(const Trace& trace, const std::string& beginning) {
  for (const std::string& note : trace.notes)
    if (note.starts_with(beginning)) return true;
  return false;
}

inline Trace parse(const std::string& text) {
  TextFile file("t.json", text);
  return read_trace(file, "baechi");
}

/// Number of occurrences of a word, an independent count of what an importer should find.
inline std::size_t occurrences(const std::string& text, std::string_view word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace baechi::testing
