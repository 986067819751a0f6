/// The content that a file may hold.
#pragma once
#include <cstdint>

namespace baechi {

/// Text alone, or also other bytes, such as protocol buffers.
enum class Content : std::uint8_t { text, any };

}  // namespace baechi
