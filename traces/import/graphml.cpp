#include "sim/graph/graph_io.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {

bool looks_like_graphml(std::string_view beginning) {
  return beginning.find("<graphml") != std::string_view::npos;
}

Trace import_graphml(TextFile& file, Options& /*options*/) {
  OpGraphBuilder builder;
  const auto ignored = read_graphml(file.rest(), file.path(), builder);
  Trace trace;
  if (!ignored.empty())
    trace.notes.push_back(fmt::format("attributes not used: {}", fmt::join(ignored, ", ")));
  trace.graph = build_graph(std::move(builder), file.path());
  return trace;
}

}  // namespace baechi
