/// Generators make a trace from options. Each one is a file, and a row in registry.cpp.
#pragma once
#include <span>
#include <string_view>

#include "sim/options.h"
#include "traces/trace.h"

namespace baechi {

using MakeTrace = Trace(Options&);
struct GeneratorEntry {
  std::string_view name;     ///< as written in a scenario: `generate: layered`
  std::string_view summary;  ///< one line for `list generators`
  std::string_view source;   ///< the publication or code that structure and constants are from
  MakeTrace* make;
};
std::span<const GeneratorEntry> generators();

/// The trace that the generator `name` makes. Equal options give equal graphs. `where` is the place
/// that messages name. Throws InputError on an unknown name, an unknown option or a bad value.
Trace generate_trace(std::string_view name, Options options, const std::string& where = {});

}  // namespace baechi
