#pragma once
#include <cstdint>

namespace baechi {

/// Whether a file must be text, or may be binary, such as protocol buffers.
enum class Content : std::uint8_t { text, any };

}  // namespace baechi
