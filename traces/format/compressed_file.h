#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace baechi {

/// Whether a file must be text, or may be binary, such as protocol buffers.
enum class Content : std::uint8_t { text, any };

/// A text file that is read once, front to back. It is decompressed if its first bytes are those of
/// gzip or zstd, whatever its name. A byte order mark is skipped.
/// All members but path(), bytes() and bytes_read() throw InputError if the file
/// - cannot be read, is truncated or is corrupt,
/// - is UTF-16 or has a zero byte near its beginning, unless `content` is Content::any,
/// - decompresses to more than 256 MiB and more than 300 times its stored bytes.
class TextFile {
 public:
  static constexpr std::size_t most_text = std::size_t{1} << 34U;  ///< limit of rest(), in bytes

  explicit TextFile(std::string path, Content content = Content::text);
  TextFile(std::string path, std::string_view bytes,  ///< reads `bytes` in place of the file
           Content content = Content::text);
  ~TextFile();

  const std::string& path() const { return path_; }  ///< for messages
  /// At least the first 64 KiB, or the whole text if it is shorter. Does not advance the position.
  std::string_view beginning() const { return beginning_; }
  /// Throws InputError if the beginning is not text, with the kind of the file if it is known.
  void require_text() const;
  /// Appends the next piece, about 256 KiB, to `text`; false at the end.
  bool read(std::string& text);
  /// All remaining text, with spare capacity so that JsonFile need not copy it. Also throws
  /// InputError if the text is over `most` bytes, and HostMemoryError if it does not fit in memory.
  std::string rest(std::size_t most = most_text);

  std::size_t bytes() const { return bytes_; }         ///< size of the stored file; 0 if unknown
  const std::atomic<std::size_t>& bytes_read() const;  ///< stored bytes read; thread-safe

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

/// The text of the file at `path`. Throws as TextFile::rest().
std::string read_file(const std::string& path, std::size_t most = TextFile::most_text);

/// Writes `text` to `path`, compressed if the name ends in .gz or .zst. The write is atomic: the
/// text goes to a temporary file in the same folder, which is then renamed. Equal texts give equal
/// bytes. Throws InputError if the file cannot be written.
void write_file(const std::string& path, std::string_view text);
/// The same for a text that `produce` passes in pieces. Only .zst needs all of them in memory.
using TextSink = std::function<void(std::string_view)>;
void write_file(const std::string& path, const std::function<void(const TextSink&)>& produce);

/// Describes a file of another program by its beginning (at least the first kilobyte, any bytes),
/// and how to get a graph from it: "a SQLite database: ...". `path` decides if the beginning is
/// ambiguous. "" if the kind is unknown.
std::string kind_of_file(std::string_view beginning, std::string_view path);

}  // namespace baechi
