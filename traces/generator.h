/// Generators build a trace from options. Each one is a file and a row in registry.cpp.
#pragma once
#include "traces/trace.h"

namespace baechi {

using MakeTrace = Trace(Options&);
struct GeneratorEntry {
  std::string_view name;     ///< as written in a scenario: `generate: layered`
  std::string_view summary;  ///< one line for `list generators`
  std::string_view source;   ///< publication or code of structure and constants
  MakeTrace* make;
};
std::span<const GeneratorEntry> generators();

/// The graph of `entry`. The option `dtype`, which all generators have, applies the transform
/// `precision`; passes of inference have an option of that name themselves.
Trace make_generated(const GeneratorEntry& entry, Options& options);

/// Runs the generator `name`. Equal options give equal graphs. `where`: the place in messages.
/// Throws InputError on an unknown name or option, or an invalid value.
Trace generate_trace(std::string_view name, Options options, const std::string& where = {});

}  // namespace baechi
