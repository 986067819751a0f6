/// Reads the messages that tests expect for the broken files of a folder under tests/bad.
#pragma once
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace baechi::testing {

/// The message for each file. `path` lists the files: a line "--- FILE", then the lines of the
/// message for that file.
inline std::map<std::string, std::string> expected_messages(const std::filesystem::path& path) {
  std::map<std::string, std::string> messages;
  std::ifstream in(path);
  std::string line, file;
  while (std::getline(in, line)) {
    if (line.starts_with("--- ")) {
      file = line.substr(4);
      messages[file];
    } else {
      messages[file] += (messages[file].empty() ? "" : "\n") + line;
    }
  }
  return messages;
}

}  // namespace baechi::testing
