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

/// The parts of `text` between `separator`s, without empty ones.
inline std::vector<std::string_view> parts(std::string_view text, char separator) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(separator), text.size());
    if (at > 0) found.push_back(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return found;
}

/// Number of occurrences of a word, an independent count of what an importer should find.
inline std::size_t occurrences(const std::string& text, std::string_view word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace baechi::testing
