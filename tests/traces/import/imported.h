/// Files of the importers' tests: seeds of the fuzz targets, which are examples of our own.
#pragma once
#include <map>
#include <string>

#include "tests/this_build.h"
#include "traces/importer.h"

namespace baechi::testing {

inline std::string seed(const std::string& file) {
  return source_dir() + "/tests/fuzz/corpus/" + file;
}

inline Trace imported(const std::string& path, const std::string& importer,
                      const std::map<std::string, std::string>& words = {}) {
  std::map<std::string, Options::Value> values;
  for (const auto& [key, word] : words) values[key].text = word;
  return read_trace(path, importer, Options(importer, values));
}

/// Whether a note of the trace begins so.
inline bool has_note(const Trace& trace, const std::string& beginning) {
  for (const std::string& note : trace.notes)
    if (note.starts_with(beginning)) return true;
  return false;
}

}  // namespace baechi::testing
