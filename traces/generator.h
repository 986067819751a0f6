/// Makes a graph from options. One file per generator, one row in registry.cpp.
#pragma once
#include <span>
#include <string_view>

#include "sim/options.h"
#include "traces/trace.h"

namespace baechi {

struct GeneratorEntry {
  std::string_view name;     ///< as written in a scenario: `generate: layered`
  std::string_view summary;  ///< one line for `list generators`
  std::string_view source;   ///< where structure and constants come from
  Trace (*make)(Options&);
};
std::span<const GeneratorEntry> generators();

/// Throws InputError on an unknown name or option, or a bad value. Equal options, equal graph.
Trace generate_trace(std::string_view name, Options options, const std::string& where = {});

}  // namespace baechi
