/// Files that are never half-written: their text goes to a file beside, which then takes the name.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace baechi {

/// A temporary file for text that will replace a file. A symbolic link stays, and the file behind
/// it is replaced. A path that exists and is no regular file, such as a pipe or /dev/stdout, is
/// written at once.
struct Aside {
  explicit Aside(const std::string& given);
  /// Renames `first` to `last`. Throws InputError.
  void take_name() const;
  /// Deletes `first`.
  void drop() const;

  std::string path;   ///< as messages call it
  std::string last;   ///< the file's name
  std::string first;  ///< `last`.part; the same as `last` where nothing can be replaced
};

/// PATH.part, which becomes PATH by take_name(); removed if that is never called.
/// Throws InputError, as "path: cannot be written: why".
class FileAside {
 public:
  explicit FileAside(const std::string& path);
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
  void flush();

  Aside aside_;
  std::unique_ptr<std::FILE, Close> file_;
  bool whole_ = true;
};

/// The file `from`, written and closed, becomes `to`, as FileAside::take_name_durably() does it.
/// Throws InputError if it cannot be written.
void rename_durably(const std::string& from, const std::string& to);

/// `text` becomes the file `path`. Throws InputError if it cannot be written.
void write_aside(const std::string& path, std::string_view text);

}  // namespace baechi
