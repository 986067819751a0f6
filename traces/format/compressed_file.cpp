#include "traces/format/compressed_file.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

#include "sim/error.h"

namespace baechi {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18U;
constexpr std::size_t most_bytes = std::size_t{1} << 34U;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw InputError(fmt::format("{}: {}", path, what));
}

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::string read_plain(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(path, "is a folder, not a file");
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(path, fmt::format("cannot be read: {}", reason(errno)));
  std::string text;
  const auto size = std::filesystem::file_size(path, ignored);
  if (!ignored && size < most_bytes) text.reserve(size + piece);
  std::size_t got = 0;
  do {
    const std::size_t used = text.size();
    text.resize(std::max(used + piece, text.capacity()));
    got = std::fread(text.data() + used, 1, text.size() - used, file.get());
    text.resize(used + got);
    if (text.size() > most_bytes) fail(path, "is over 16 GiB");
  } while (got > 0);
  if (std::ferror(file.get()) != 0) fail(path, fmt::format("cannot be read: {}", reason(errno)));
  return text;
}

/// Makes room for more output behind `used` bytes.
void grow(std::string& out, std::size_t used, const std::string& path) {
  if (used > most_bytes) fail(path, "is over 16 GiB once decompressed");
  if (out.size() - used < piece / 2) out.resize(std::max(out.size() + piece, 2 * used));
}

std::string gunzip(std::string_view in, const std::string& path) {
  z_stream z{};
  constexpr int gzip_only = 16 + MAX_WBITS;
  BAECHI_CHECK(inflateInit2(&z, gzip_only) == Z_OK, "zlib");
  const std::unique_ptr<z_stream, void (*)(z_stream*)> end(&z, [](z_stream* s) { inflateEnd(s); });
  std::string out;
  std::size_t used = 0;
  int status = Z_OK;
  while (true) {
    grow(out, used, path);
    const auto chunk = [](std::size_t n) {
      return static_cast<uInt>(std::min<std::size_t>(n, std::numeric_limits<uInt>::max()));
    };
    const uInt given = chunk(in.size()), room = chunk(out.size() - used);
    // zlib's interface predates const.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    z.avail_in = given;
    z.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    z.avail_out = room;
    status = inflate(&z, Z_NO_FLUSH);
    in.remove_prefix(given - z.avail_in);
    used += room - z.avail_out;
    if (status == Z_STREAM_END) {
      if (in.empty()) break;
      // Members may follow one another; the stream is then their concatenation.
      if (inflateReset(&z) != Z_OK) fail(path, "gzip: cannot go on");
    } else if (status != Z_OK) {
      fail(path, status == Z_BUF_ERROR && in.empty() ? "gzip: the file is cut short"
                                                     : "gzip: the file is corrupt");
    }
  }
  out.resize(used);
  return out;
}

std::string unzstd(std::string_view in, const std::string& path) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        ZSTD_freeDCtx);
  std::string out;
  std::size_t used = 0;
  ZSTD_inBuffer input{in.data(), in.size(), 0};
  std::size_t status = 0;
  bool full = true;
  while (input.pos < input.size || full) {
    grow(out, used, path);
    ZSTD_outBuffer output{out.data(), out.size(), used};
    status = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_isError(status) != 0U)
      fail(path, fmt::format("zstd: the file is corrupt: {}", ZSTD_getErrorName(status)));
    used = output.pos;
    full = used == output.size;
  }
  if (status != 0) fail(path, "zstd: the file is cut short");
  out.resize(used);
  return out;
}

std::string gzip(std::string_view text) {
  z_stream z{};
  constexpr int gzip_format = 16 + MAX_WBITS, memory = 8;
  BAECHI_CHECK(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_format, memory,
                            Z_DEFAULT_STRATEGY) == Z_OK,
               "zlib");
  const std::unique_ptr<z_stream, void (*)(z_stream*)> end(&z, [](z_stream* s) { deflateEnd(s); });
  std::string out;
  int status = Z_OK;
  std::array<char, std::size_t{1} << 16U> buffer{};
  while (status != Z_STREAM_END) {
    const auto given = static_cast<uInt>(std::min<std::size_t>(text.size(), piece));
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = given;
    z.next_out = reinterpret_cast<Bytef*>(buffer.data());
    z.avail_out = static_cast<uInt>(buffer.size());
    status = deflate(&z, given == text.size() ? Z_FINISH : Z_NO_FLUSH);
    text.remove_prefix(given - z.avail_in);
    out.append(buffer.data(), buffer.size() - z.avail_out);
  }
  return out;
}

std::string zstd(std::string_view text) {
  constexpr int level = 3;
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level);
  BAECHI_CHECK(ZSTD_isError(size) == 0U, "zstd: {}", ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

bool write_plain(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && whole;
}

}  // namespace

std::string decompressed(std::string bytes, const std::string& path) {
  if (bytes.starts_with("\x1f\x8b")) return gunzip(bytes, path);
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return unzstd(bytes, path);
  return bytes;
}

std::string read_file(const std::string& path) {
  return decompressed(read_plain(path), path);
}

void write_file(const std::string& path, std::string_view text) {
  std::string packed;
  if (path.ends_with(".gz")) text = packed = gzip(text);
  if (path.ends_with(".zst")) text = packed = zstd(text);
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {  // a pipe or device: not to be replaced
    if (!write_plain(path, text)) fail(path, fmt::format("cannot be written: {}", reason(errno)));
    return;
  }
  const fs::path target = fs::exists(there) ? fs::canonical(path, error) : fs::path(path);
  const std::string aside = fmt::format("{}.{}.part", target.string(), getpid());
  const bool written = write_plain(aside, text);
  int why = errno;
  if (written) {
    fs::rename(aside, target, error);
    if (!error) return;
    why = error.value();
  }
  fs::remove(aside, error);
  fail(path, fmt::format("cannot be written: {}", reason(why)));
}

}  // namespace baechi
