/// Reads PNG images: just the part of the format that browsers use for screenshots.
#pragma once
#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

namespace baechi::testing {

/// An image in pixels.
struct Image {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  ///< [height, width, 3]

  /// The number of pixels whose red, green and blue each differ from `colour` by at most
  /// `tolerance`.
  std::size_t count(std::array<int, 3> colour, int tolerance = 8) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i + 2 < rgb.size(); i += 3) {
      bool near = true;
      for (std::size_t c = 0; c < 3; ++c) near &= std::abs(rgb[i + c] - colour[c]) <= tolerance;
      n += near ? 1 : 0;
    }
    return n;
  }
};

/// Reads a PNG file with 8 bits per channel, with or without alpha, not interlaced. Nothing if
/// `bytes` are anything else.
inline std::optional<Image> read_png(std::string_view bytes) {
  const auto number = [&](std::size_t at) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < 4; ++i) n = n * 256 + static_cast<std::uint8_t>(bytes[at + i]);
    return n;
  };
  Image image;
  std::size_t channels = 0;
  std::string packed;
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    const std::size_t size = number(at);
    const std::string_view type = bytes.substr(at + 4, 4);
    if (at + 12 + size > bytes.size()) return std::nullopt;
    if (type == "IHDR") {
      image.width = number(at + 8);
      image.height = number(at + 12);
      if (bytes[at + 16] != 8 || bytes[at + 20] != 0) return std::nullopt;
      channels = bytes[at + 17] == 2 ? 3 : bytes[at + 17] == 6 ? 4 : 0;
    }
    if (type == "IDAT") packed += bytes.substr(at + 8, size);
    at += 12 + size;
  }
  if (channels == 0) return std::nullopt;
  const std::size_t stride = image.width * channels;
  std::vector<std::uint8_t> raw(image.height * (stride + 1));
  auto length = static_cast<uLongf>(raw.size());
  if (uncompress(raw.data(), &length, reinterpret_cast<const Bytef*>(packed.data()),
                 static_cast<uLong>(packed.size())) != Z_OK ||
      length != raw.size())
    return std::nullopt;
  std::vector<int> before(stride, 0), line(stride, 0);
  for (std::size_t y = 0; y < image.height; ++y) {
    const std::uint8_t* in = raw.data() + y * (stride + 1);
    for (std::size_t x = 0; x < stride; ++x) {
      const int a = x >= channels ? line[x - channels] : 0, b = before[x];
      const int c = x >= channels ? before[x - channels] : 0;
      const int pa = std::abs(b - c), pb = std::abs(a - c), pc = std::abs(a + b - 2 * c);
      const int paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      const std::array predicted{0, a, b, (a + b) / 2, paeth};
      if (in[0] >= predicted.size()) return std::nullopt;
      line[x] = (in[x + 1] + predicted[in[0]]) & 0xff;
    }
    for (std::size_t x = 0; x < image.width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        image.rgb.push_back(static_cast<std::uint8_t>(line[x * channels + c]));
    std::swap(before, line);
  }
  return image;
}

}  // namespace baechi::testing
