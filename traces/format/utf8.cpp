#include "traces/format/utf8.h"

#include <fmt/format.h>
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

}  // namespace baechi
