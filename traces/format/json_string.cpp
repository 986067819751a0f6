#include "traces/format/json_string.h"

namespace baechi {

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
