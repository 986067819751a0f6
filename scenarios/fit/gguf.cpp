#include "scenarios/fit/gguf.h"

#include <bit>
#include <cstring>
#include <fstream>

#include "sim/error.h"

namespace baechi {
namespace {

constexpr std::string_view gguf_magic = "GGUF";

/// ggml_type, by number; "" are unused.
constexpr auto gguf_types = std::to_array<std::string_view>(
    {"f32",     "f16",   "q4_0",   "q4_1",  "",      "",       "q5_0", "q5_1",    "q8_0",
     "q8_1",    "q2_k",  "q3_k",   "q4_k",  "q5_k",  "q6_k",   "q8_k", "iq2_xxs", "iq2_xs",
     "iq3_xxs", "iq1_s", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs", "",     "",        "",
     "",        "",      "iq1_m",  "bf16",  "",      "",       "",     "",        "",
     "",        "",      "",       "mxfp4", "nvfp4"});

class GgufReader {
 public:
  explicit GgufReader(const std::string& path) : path_(path), in_(path, std::ios::binary) {
    if (!in_) throw InputError(path + ": cannot be read");
  }

  GgufHeader run() {
    if (bytes(gguf_magic.size()) != gguf_magic) fail("no GGUF file");
    if (const auto version = number<std::uint32_t>(); version < 2 || version > 3)
      fail(fmt::format("GGUF version {}; versions 2 and 3 are read", version));
    const auto tensors = number<std::uint64_t>(), values = number<std::uint64_t>();
    GgufHeader header;
    for (std::uint64_t i = 0; i < values; ++i) {
      const std::string key = text();
      header.values[key] = value(number<std::uint32_t>());
    }
    for (std::uint64_t i = 0; i < tensors; ++i) {
      const std::string name = text();
      const auto dimensions = number<std::uint32_t>();
      if (dimensions > 8) fail("a tensor of more than 8 dimensions");
      std::int64_t size = 1;
      for (std::uint32_t d = 0; d < dimensions; ++d)
        if (__builtin_mul_overflow(size, number<std::int64_t>(), &size) || size < 0)
          fail("a tensor of more than 2^63 numbers");
      const auto type = number<std::uint32_t>();
      if (type >= gguf_types.size() || gguf_types[type].empty())
        fail(fmt::format("an unknown type of tensor, {}", type));
      header.tensors[name] = {std::string(gguf_types[type]), size};
      number<std::uint64_t>();  // where its data are
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", path_, what));
  }

  std::string bytes(std::uint64_t count) {
    constexpr std::uint64_t most = std::uint64_t{1} << 24U;
    if (count > most) fail("a text of more than 16 MiB in its header");
    std::string read(count, '\0');
    if (!in_.read(read.data(), static_cast<std::streamsize>(count))) fail("ends within its header");
    return read;
  }
  template <class Number>
  Number number() {
    Number read{};
    std::memcpy(&read, bytes(sizeof(Number)).data(), sizeof(Number));
    return read;
  }
  std::string text() { return bytes(number<std::uint64_t>()); }

  std::string value(std::uint32_t type) {
    constexpr std::array<std::size_t, 13> size{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    constexpr std::uint32_t of_text = 8, list = 9;
    if (type == of_text) return text();
    if (type >= size.size()) fail(fmt::format("an unknown type of value, {}", type));
    if (type == list) {
      const auto inner = number<std::uint32_t>();
      const auto count = number<std::uint64_t>();
      if (inner == list) fail("a list of lists in its header");
      for (std::uint64_t i = 0; i < count; ++i) value(inner);
      return std::to_string(count);
    }
    const std::string read = bytes(size[type]);
    std::uint64_t whole = 0;
    std::memcpy(&whole, read.data(), read.size());
    return std::to_string(whole);
  }

  std::string path_;
  std::ifstream in_;
};

}  // namespace

bool is_gguf(const std::string& path) {
  std::array<char, gguf_magic.size()> beginning{};
  std::ifstream in(path, std::ios::binary);
  return in.read(beginning.data(), beginning.size()) &&
         std::string_view(beginning.data(), beginning.size()) == gguf_magic;
}

GgufHeader read_gguf(const std::string& path) {
  static_assert(std::endian::native == std::endian::little);
  return GgufReader(path).run();
}

}  // namespace baechi
