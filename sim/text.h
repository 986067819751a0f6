/// Text that others wrote, made fit to be shown.
#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// `text` as valid UTF-8 that does nothing to a terminal: bytes that are not UTF-8 become U+FFFD;
/// escape sequences (ESC [ ..., ESC ] ... and the like, and their one-character forms U+0080 to
/// U+009F) and control characters other than line breaks and tabs are removed.
std::string plain_text(std::string_view text);

/// `text` with what HTML and SVG would read as their own replaced.
std::string escaped(std::string_view text);

/// `text` without the spaces, tabs and carriage returns at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace baechi
