/// What each broken file of a folder under tests/bad is answered with.
#pragma once
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace baechi::testing {

/// Of `path`: "--- FILE" and the lines of its message, for each file.
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
