#include "sim/graph/graph_io.h"
#include "traces/import/importer.h"

namespace baechi {

bool looks_like_graphml(const SourceText& source) {
  return std::string_view(source.text).substr(0, 65536).find("<graphml") != std::string_view::npos;
}

Trace import_graphml(const SourceText& source, Options& /*options*/) {
  OpGraphBuilder builder;
  const auto ignored = read_graphml(source.text, source.path, builder);
  Trace trace;
  if (!ignored.empty())
    trace.notes.push_back(fmt::format("attributes not used: {}", fmt::join(ignored, ", ")));
  trace.graph = build_graph(std::move(builder), source.path);
  return trace;
}

}  // namespace baechi
