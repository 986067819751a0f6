#include "traces/format/compressed_file.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>

#include "sim/error.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18U;
// Limits on decompression, against decompression bombs. Real traces compress less than this.
constexpr std::size_t free_expansion = std::size_t{256} << 20U;  // bytes
constexpr std::size_t most_expansion = 300;                      // times the stored bytes

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw InputError(fmt::format("{}: {}", path, what));
}

std::string reason(int error) { return std::generic_category().message(error); }

File opened(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    fail(path, std::filesystem::exists(path + "/results.sqlite", ignored)
                   ? "is a folder of results, not a file: 'baechi compare', 'report' and 'explain "
                     "FOLDER --run ID' take it"
                   : "is a folder, not a file");
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(path, fmt::format("cannot be read: {}", reason(errno)));
  return file;
}

}  // namespace

/// A sequential source of bytes.
class TextFile::Input {
 public:
  Input() = default;
  virtual ~Input() = default;
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  virtual std::size_t read(char* to, std::size_t most) = 0;  ///< bytes read; 0 at the end
  std::atomic<std::size_t> bytes_read = 0;
};

namespace {

/// The stored bytes of a file; `begun` holds its first bytes, which were read before.
class Stored final : public TextFile::Input {
 public:
  Stored(std::string path, File file, std::string begun)
      : path_(std::move(path)), file_(std::move(file)), begun_(std::move(begun)) {}

  std::size_t read(char* to, std::size_t most) override {
    std::size_t got = begun_.copy(to, most, at_);
    at_ += got;
    if (got == 0 && file_) got = std::fread(to, 1, most, file_.get());
    if (file_ && std::ferror(file_.get()) != 0)
      fail(path_, fmt::format("cannot be read: {}", reason(errno)));
    bytes_read.fetch_add(got, std::memory_order_relaxed);
    return got;
  }

 private:
  std::string path_;
  File file_;
  std::string begun_;
  std::size_t at_ = 0;  // position in begun_
};

class Gunzip final : public TextFile::Input {
 public:
  Gunzip(TextFile::Input& in, const std::string& path) : in_(in), path_(path) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    BAECHI_CHECK(inflateInit2(&z_, gzip_only) == Z_OK, "zlib");
  }
  ~Gunzip() override { inflateEnd(&z_); }

  std::size_t read(char* to, std::size_t most) override {
    const auto available = static_cast<uInt>(std::min<std::size_t>(most, piece));
    z_.next_out = reinterpret_cast<Bytef*>(to);
    z_.avail_out = available;
    while (z_.avail_out == available) {
      if (z_.avail_in == 0) {
        z_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        z_.avail_in = static_cast<uInt>(in_.read(buffer_.data(), buffer_.size()));
      }
      const bool at_end = z_.avail_in == 0;
      if (ended_ && at_end) return 0;
      // A gzip file is a concatenation of members.
      if (ended_ && inflateReset(&z_) != Z_OK) fail(path_, "gzip: cannot continue");
      const int status = inflate(&z_, Z_NO_FLUSH);
      ended_ = status == Z_STREAM_END;
      if (!ended_ && status != Z_OK)
        fail(path_, status == Z_BUF_ERROR && at_end ? "gzip: the file is cut short"
                                                    : "gzip: the file is corrupt");
    }
    return available - z_.avail_out;
  }

 private:
  TextFile::Input& in_;
  const std::string& path_;
  z_stream z_{};
  std::string buffer_ = std::string(piece, '\0');
  bool ended_ = false;  // the current member has ended
};

class Unzstd final : public TextFile::Input {
 public:
  Unzstd(TextFile::Input& in, const std::string& path) : in_(in), path_(path) {}

  std::size_t read(char* to, std::size_t most) override {
    ZSTD_outBuffer output{to, most, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size)
        input_ = {buffer_.data(), in_.read(buffer_.data(), buffer_.size()), 0};
      const bool at_end = input_.size == 0;
      if (at_end && status_ == 0) return 0;
      status_ = ZSTD_decompressStream(context_.get(), &output, &input_);
      if (ZSTD_isError(status_) != 0U)
        fail(path_, fmt::format("zstd: the file is corrupt: {}", ZSTD_getErrorName(status_)));
      if (at_end && output.pos == 0) fail(path_, "zstd: the file is cut short");
    }
    return output.pos;
  }

 private:
  TextFile::Input& in_;
  const std::string& path_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_{ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx};
  std::string buffer_ = std::string(piece, '\0');
  ZSTD_inBuffer input_{};
  std::size_t status_ = 1;  // 0: a frame has ended
};

/// Compresses the pieces of a text for `sink`.
class Gzip {
 public:
  explicit Gzip(const TextSink& sink) : sink_(sink) {
    constexpr int gzip_format = 16 + MAX_WBITS, memory = 8;
    BAECHI_CHECK(deflateInit2(&z_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_format, memory,
                              Z_DEFAULT_STRATEGY) == Z_OK,
                 "zlib");
  }
  ~Gzip() { deflateEnd(&z_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void write(std::string_view text, bool last = false) {
    int status = Z_OK;
    do {
      const auto given = static_cast<uInt>(std::min<std::size_t>(text.size(), piece));
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      z_.avail_in = given;
      z_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      z_.avail_out = static_cast<uInt>(buffer_.size());
      status = deflate(&z_, last && given == text.size() ? Z_FINISH : Z_NO_FLUSH);
      text.remove_prefix(given - z_.avail_in);
      sink_({buffer_.data(), buffer_.size() - z_.avail_out});
    } while (last ? status != Z_STREAM_END : !text.empty());
  }

 private:
  const TextSink& sink_;
  z_stream z_{};
  std::array<char, std::size_t{1} << 16U> buffer_{};
};

std::string zstd(std::string_view text) {
  constexpr int level = 3;
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level);
  BAECHI_CHECK(ZSTD_isError(size) == 0U, "zstd: {}", ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

/// Whether `bytes` begin with a zstd frame, or with a skippable frame as in files of pzstd.
bool begins_zstd(std::string_view bytes) {
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return true;
  return bytes.size() >= 4 && bytes.substr(1, 3) == "\x2a\x4d\x18" &&
         static_cast<unsigned char>(bytes[0]) / 16 == 5;
}

}  // namespace

TextFile::TextFile(std::string path, Content content) : path_(std::move(path)) {
  File file = opened(path_);
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path_, unknown);
  if (!unknown) bytes_ = size;
  std::string begun(piece, '\0');
  begun.resize(std::fread(begun.data(), 1, begun.size(), file.get()));
  begin(begun, std::make_unique<Stored>(path_, std::move(file), begun), content);
}

TextFile::TextFile(std::string path, std::string_view bytes, Content content)
    : path_(std::move(path)), bytes_(bytes.size()) {
  begin(bytes, std::make_unique<Stored>(path_, nullptr, std::string(bytes)), content);
}

TextFile::~TextFile() = default;

void TextFile::begin(std::string_view bytes, std::unique_ptr<Input> stored, Content content) {
  stored_ = std::move(stored);
  if (bytes.starts_with("\x1f\x8b")) packed_ = std::make_unique<Gunzip>(*stored_, path_);
  if (begins_zstd(bytes)) packed_ = std::make_unique<Unzstd>(*stored_, path_);
  while (beginning_.size() < 65536 && append(beginning_)) {
  }
  if (content == Content::text) require_text();
  if (beginning_.starts_with("\xef\xbb\xbf")) beginning_.erase(0, 3);  // a byte order mark
}

void TextFile::require_text() const {
  if (beginning_.starts_with("\xff\xfe") || beginning_.starts_with("\xfe\xff"))
    fail(path_, "is UTF-16: save it as UTF-8");
  if (const std::size_t zero = beginning_.find('\0'); zero != std::string::npos) {
    const std::string kind = kind_of_file(beginning_, path_);
    fail(path_,
         kind.empty() ? fmt::format("is not text: its byte {} is zero", zero + 1) : "is " + kind);
  }
}

bool TextFile::append(std::string& text) {
  const std::size_t used = text.size();
  text.resize(used + piece);
  const std::size_t got = (packed_ ? packed_ : stored_)->read(text.data() + used, piece);
  text.resize(used + got);
  expanded_ += got;
  const std::size_t stored = stored_->bytes_read;
  if (packed_ && expanded_ > free_expansion && expanded_ / most_expansion > stored)
    fail(path_, fmt::format("decompresses to over {} MiB and more than {} times its {} bytes: "
                            "decompression is stopped",
                            free_expansion >> 20U, most_expansion, stored));
  return got > 0;
}

bool TextFile::read(std::string& text) {
  if (begun_) return append(text);
  begun_ = true;
  text += beginning_;
  return !beginning_.empty();
}

std::string TextFile::rest(std::size_t most) {
  std::string text;
  try {
    if (!packed_ && bytes_ <= most) text.reserve(bytes_ + piece);
    while (read(text))
      if (text.size() > most)
        fail(path_,
             fmt::format("is over {} MiB{}", most >> 20U, packed_ ? " once decompressed" : ""));
  } catch (const std::bad_alloc&) {
    throw HostMemoryError(
        fmt::format("reading {}, of which {} MiB are read", path_, text.size() >> 20U));
  }
  return text;
}

const std::atomic<std::size_t>& TextFile::bytes_read() const { return stored_->bytes_read; }

std::string read_file(const std::string& path, std::size_t most) {
  return TextFile(path).rest(most);
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, [text](const TextSink& sink) { sink(text); });
}

void write_file(const std::string& path, const std::function<void(const TextSink&)>& produce) {
  AtomicFile file(path);
  const TextSink plain = [&file](std::string_view bytes) { file.print(bytes); };
  if (path.ends_with(".gz")) {
    Gzip gzip(plain);
    produce([&gzip](std::string_view text) { gzip.write(text); });
    gzip.write({}, true);
  } else if (path.ends_with(".zst")) {
    std::string text;
    produce([&text](std::string_view part) { text += part; });
    plain(zstd(text));
  } else {
    produce(plain);
  }
  file.take_name();
}

}  // namespace baechi
