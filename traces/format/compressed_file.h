/// Reads and writes text files, compressed or plain.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "traces/content.h"

namespace baechi {

/// A text file that is read once, front to back. It is decompressed if its first bytes are gzip's
/// or zstd's, whatever its name. A byte order mark at its beginning is skipped.
///
/// All members but path(), bytes() and bytes_read() throw InputError if the file
/// - cannot be read, is cut short or is corrupt,
/// - is UTF-16, or has a zero byte near its beginning, unless it may hold any content,
/// - decompresses to more than 256 MiB and also to more than 300 times its stored bytes.
class TextFile {
 public:
  static constexpr std::size_t most_text = std::size_t{1} << 34U;  ///< limit of rest(), in bytes

  explicit TextFile(std::string path, Content content = Content::text);
  TextFile(std::string path, std::string_view bytes,  ///< `bytes` stand for the file's
           Content content = Content::text);
  ~TextFile();

  const std::string& path() const { return path_; }  ///< for messages
  /// At least the first 64 KiB, or the whole text if it is shorter. Does not advance the reading.
  std::string_view beginning() const { return beginning_; }
  /// Throws InputError if the beginning is no text. The message names the kind of the file, if
  /// known.
  void require_text() const;
  /// Appends the next piece, about 256 KiB, to `text`; false at the end.
  bool read(std::string& text);
  /// All remaining text. The string has spare capacity, so that JsonFile need not copy it. Throws
  /// InputError also if the text is over `most` bytes, and HostMemoryError if this machine's memory
  /// has no room for it.
  std::string rest(std::size_t most = most_text);

  std::size_t bytes() const { return bytes_; }         ///< size of the stored file; 0 if unknown
  const std::atomic<std::size_t>& bytes_read() const;  ///< stored bytes read; any thread may ask

  class Input;

 private:
  void begin(std::string_view bytes, std::unique_ptr<Input> stored, Content content);
  bool append(std::string& text);

  std::string path_;
  std::size_t bytes_ = 0;
  std::unique_ptr<Input> stored_, packed_;  // packed_ decompresses stored_; null for plain text
  std::string beginning_;
  bool begun_ = false;
  std::size_t expanded_ = 0;  // bytes of text so far, after decompression
};

/// The whole text of the file at `path`. Throws as TextFile::rest().
std::string read_file(const std::string& path, std::size_t most = TextFile::most_text);

/// Writes `text` to `path`, compressed if the name ends in .gz or .zst. The write is atomic: the
/// text goes to a temporary file in the same folder, which is then renamed. Equal texts give equal
/// bytes. Throws InputError if the file cannot be written.
void write_file(const std::string& path, std::string_view text);
/// The same for a text that `produce` hands over in pieces. Only a compressed file needs all pieces
/// in memory at once.
using TextSink = std::function<void(std::string_view)>;
void write_file(const std::string& path, const std::function<void(const TextSink&)>& produce);

}  // namespace baechi
