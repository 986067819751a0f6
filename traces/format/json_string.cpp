#include "traces/format/json_string.h"

#include <simdjson.h>

#include <algorithm>

#include "sim/error.h"

namespace baechi {

std::size_t valid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text)) return text.size();
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0xc0 ? 1U : lead < 0xe0 ? 2U : lead < 0xf0 ? 3U : 4U;
    if (!simdjson::validate_utf8(text.substr(i, length))) break;
    i += length;
  }
  return i;
}

void require_utf8(const std::string& path, std::string_view text) {
  const std::size_t good = valid_utf8(text);
  if (good == text.size()) return;
  const std::string_view before = text.substr(0, good);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 == 0
  throw InputError(fmt::format("{}:{}:{}: a byte that is not UTF-8: save the file as UTF-8", path,
                               line, good - begin + 1));
}

void append_json_string(fmt::memory_buffer& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(fmt::appender(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

std::string json_string(std::string_view text) {
  fmt::memory_buffer out;
  append_json_string(out, text);
  return fmt::to_string(out);
}

}  // namespace baechi
