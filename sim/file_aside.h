/// Files that are never half-written: their text goes to a file beside, which then takes the name.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace baechi {

/// PATH.part, which becomes PATH by take_name(); removed if that is never called.
/// Throws InputError, as "path: cannot be written: why".
class FileAside {
 public:
  explicit FileAside(std::string path);
  ~FileAside();
  FileAside(const FileAside&) = delete;
  FileAside& operator=(const FileAside&) = delete;

  void print(std::string_view text);
  void take_name();
  /// take_name(), and the file is on the disk before the name is there: also a machine that goes
  /// down leaves the old file or the new one.
  void take_name_durably();

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool whole_ = true;
};

/// The file `from`, written and closed, becomes `to`, as FileAside::take_name_durably() does it.
/// Throws InputError if it cannot be written.
void rename_durably(const std::string& from, const std::string& to);

/// `text` becomes the file `path`. Throws InputError if it cannot be written.
void write_aside(const std::string& path, std::string_view text);

}  // namespace baechi
