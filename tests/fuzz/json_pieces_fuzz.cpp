/// libFuzzer target: cuts the text into pieces of at least as many bytes as its first byte states.
/// The pieces are the text without the commas at the cuts, and JSON if the text is.
#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "traces/format/json_pieces.h"

namespace baechi {
namespace {

void check_pieces(const std::string& text, std::size_t least) {
  const bool is_json = nlohmann::json::accept(text);
  TextFile file("fuzz", text);
  JsonPieces pieces(file, least);
  JsonPiece piece;
  std::size_t at = 0;
  bool last = false;
  while (pieces.next(piece)) {
    BAECHI_CHECK(!last, "a piece behind the last one of {}", text);
    BAECHI_CHECK(piece.place == advance({}, std::string_view(text).substr(0, at)), "place {}",
                 text);
    const auto body = std::string_view(piece.text)
                          .substr(piece.opening, piece.text.size() - piece.opening - piece.closing);
    BAECHI_CHECK(text.compare(at, body.size(), body) == 0, "at {} of {}", at, text);
    BAECHI_CHECK(!is_json || nlohmann::json::accept(piece.text), "{} of {}", piece.text, text);
    at += body.size();
    last = piece.closing == 0;
    if (last) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n,", at);
    BAECHI_CHECK(next != std::string::npos, "cut at the end of {}", text);
    const std::string_view gap = std::string_view(text).substr(at, next - at);
    BAECHI_CHECK(gap.find(',') != std::string_view::npos && gap.find(',') == gap.rfind(','),
                 "cut at {} of {}", at, text);
    at = next;
  }
  BAECHI_CHECK(last && at == text.size(), "{} of {} bytes of {}", at, text.size(), text);
}

}  // namespace
}  // namespace baechi

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (text.starts_with("\x1f\x8b") || text.starts_with("\x28\xb5\x2f\xfd")) return 0;  // compressed
  if (text.starts_with("\xef\xbb\xbf")) return 0;  // TextFile skips the byte order mark
  try {
    check_pieces(text, *data);
  } catch (const InputError&) {  // TextFile rejects binary or truncated files
  }
  return 0;
}
