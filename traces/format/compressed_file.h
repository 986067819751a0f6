/// Files in and out, compressed or not.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace baechi {

/// A text file that is read once, front to back; decompressed if its first bytes say gzip or zstd,
/// whatever its name. A byte order mark at its beginning is skipped. All but path() and the counts
/// throw InputError if it cannot be read, is cut short or corrupt, is UTF-16, has a zero byte near
/// its beginning, or is over 256 MiB once decompressed and 300 times what is stored.
class TextFile {
 public:
  static constexpr std::size_t most_text = std::size_t{1} << 34U;  ///< bytes in one string

  explicit TextFile(std::string path);
  TextFile(std::string path, std::string_view bytes);  ///< as if `bytes` were the file's
  ~TextFile();

  const std::string& path() const { return path_; }  ///< for messages
  /// At least the first 64 KiB, or all there is; not read by that.
  std::string_view beginning() const { return beginning_; }
  /// Appends what comes next, about 256 KiB, to `text`; false at the end.
  bool read(std::string& text);
  /// All that was not read, with room behind it, so that JsonFile need not copy it. Throws
  /// InputError, too, if that is over `most` bytes; HostMemoryError if there is no room for it.
  std::string rest(std::size_t most = most_text);

  std::size_t bytes() const { return bytes_; }  ///< of the file as it is stored; 0 if unknown
  const std::atomic<std::size_t>& bytes_read() const;  ///< of those; may be asked by any thread

  class Input;

 private:
  void begin(std::string_view bytes, std::unique_ptr<Input> stored);
  bool append(std::string& text);

  std::string path_;
  std::size_t bytes_ = 0;
  std::unique_ptr<Input> stored_, packed_;  // packed_ decompresses stored_, or is null
  std::string beginning_;
  bool begun_ = false;
  std::size_t expanded_ = 0;  // bytes made of stored_, decompressed or not
};

/// All of the file at `path`, as TextFile::rest().
std::string read_file(const std::string& path, std::size_t most = TextFile::most_text);

/// Writes `text` to `path`, compressed if the name ends in .gz or .zst. The file appears whole or
/// not at all: it is written aside, in the same folder, and renamed. Equal text, equal bytes.
/// Throws InputError if it cannot be written.
void write_file(const std::string& path, std::string_view text);
/// The same of a text that `produce` hands over in pieces, all of which are held only if they are
/// to be compressed.
using TextSink = std::function<void(std::string_view)>;
void write_file(const std::string& path, const std::function<void(const TextSink&)>& produce);

}  // namespace baechi
