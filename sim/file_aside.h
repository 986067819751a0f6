/// Atomic file replacement: text is written to a temporary file, which is then renamed.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace baechi {

/// The name of the temporary file for a target path. A symbolic link is kept and its target
/// replaced. A path that exists and is no regular file, such as a pipe or /dev/stdout, is written
/// directly.
struct PendingFile {
  explicit PendingFile(const std::string& given);
  /// Renames `first` to `last`. Throws InputError.
  void take_name() const;
  /// Deletes `first`.
  void drop() const {
    if (first != last) std::remove(first.c_str());
  }

  std::string path;   ///< as given, for messages
  std::string last;   ///< the target, symbolic links resolved
  std::string first;  ///< `last`.part; equal to `last` if the target is written directly
};

/// Writes PATH.part; take_name() renames it to PATH. Removed by the destructor otherwise.
/// Throws InputError, as "path: cannot be written: why".
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void print(std::string_view text) {
    whole_ = whole_ && std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  }
  void take_name();
  /// take_name() after an fsync: a crash of the machine leaves either the old file or the new one.
  void take_name_durably();

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  void flush();

  PendingFile pending_;
  std::unique_ptr<std::FILE, Close> file_;
  bool whole_ = true;
};

/// Renames the closed file `from` to `to`, as AtomicFile::take_name_durably().
/// Throws InputError if it cannot be written.
void rename_durably(const std::string& from, const std::string& to);

/// Replaces the file `path` by `text`. Throws InputError if it cannot be written.
void write_aside(const std::string& path, std::string_view text);

}  // namespace baechi
