/// A folder for the files of one test, removed when the test ends.
#pragma once
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace baechi::testing {

/// The destructor removes the folder with all files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "baechi-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// The path of the file `name` in the folder, whether or not the file exists.
  std::string file(std::string_view name) const { return (path_ / name).string(); }
  /// Writes `text` to the file `name`; returns the path.
  std::string write(std::string_view name, std::string_view text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
  /// The content of the file `name`.
  std::string read(std::string_view name) const {
    std::ostringstream text;
    text << std::ifstream(file(name), std::ios::binary).rdbuf();
    return std::move(text).str();
  }
  std::size_t num_files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }

 private:
  std::filesystem::path path_;
};

/// Runs a shell command in the folder; its output goes to out.txt, unless `streams` says otherwise.
/// The exit code, 128 + n after signal n.
inline int shell(const TemporaryFolder& folder, const std::string& command,
                 const std::string& streams = ">out.txt 2>&1") {
  const std::string line = "cd '" + folder.file("") + "' && { " + command + "; } " + streams;
  const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe)
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
/// Whether a command of the shell succeeds; says what is missing if not.
inline bool there_is(const std::string& what, const std::string& command) {
  const std::string line = command + " >/dev/null 2>&1";
  if (std::system(line.c_str()) == 0) return true;  // NOLINT(concurrency-mt-unsafe)
  MESSAGE("skipped: there is no " << what);
  return false;
}

/// Whether the file is there and holds `text`.
inline bool says(const TemporaryFolder& folder, std::string_view file, std::string_view text) {
  return std::filesystem::exists(folder.file(file)) &&
         folder.read(file).find(text) != std::string::npos;
}
/// Checks that the file holds each of these texts.
inline void check_says(const TemporaryFolder& folder, std::string_view file,
                       std::initializer_list<const char*> texts) {
  for (const char* text : texts) CHECK_MESSAGE(says(folder, file, text), text);
}

}  // namespace baechi::testing
