#include "traces/format/json_string.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace {

void put(fmt::memory_buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

void put(fmt::memory_buffer& out, std::int64_t n) {
  put(out, std::string_view(fmt::format_int(n).c_str()));
}

/// Appends microseconds with up to three decimals: "12.5".
void put_us(fmt::memory_buffer& out, Duration time) {
  put(out, time.count() / 1000);
  std::int64_t rest = time.count() % 1000;
  if (rest == 0) return;
  out.push_back('.');
  for (std::int64_t digit = 100; rest > 0; digit /= 10) {
    out.push_back(static_cast<char>('0' + rest / digit));
    rest %= digit;
  }
}

void put_compute(fmt::memory_buffer& out, const OpGraph& graph, OpId v) {
  const auto& kinds = graph.device_kinds();
  if (kinds.empty()) return put_us(out, graph.op(v).compute);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    put(out, k == 0 ? "{" : ", ");
    append_json_string(out, kinds[k]);
    put(out, ": ");
    if (const auto time = graph.compute(v, k))
      put_us(out, *time);
    else
      put(out, "null");
  }
  put(out, "}");
}

void put_outputs(fmt::memory_buffer& out, const OpGraph& graph, OpId v) {
  put(out, ", \"outputs\": [");
  bool first = true;
  for (const TensorId t : graph.outputs(v)) {
    if (graph.tensor(t).control) continue;
    put(out, first ? "{\"bytes\": " : ", {\"bytes\": ");
    first = false;
    put(out, graph.tensor(t).size.count);
    if (const auto time = graph.measured_transfer(t)) {
      put(out, ", \"transfer_us\": ");
      put_us(out, *time);
    }
    if (graph.tensor(t).reference) put(out, ", \"reference\": true");
    put(out, graph.tensor(t).fixed_size ? ", \"fixed_size\": true}" : "}");
  }
  put(out, "]");
}

void put_matrix(fmt::memory_buffer& out, const MatrixShape& shape) {
  if (shape.kind == MatrixKind::none) return;
  put(out, ", \"matrix\": {\"kind\": ");
  append_json_string(out, to_text(shape.kind));
  const std::pair<std::string_view, std::int64_t> extents[] = {{", \"count\": ", shape.count},
                                                               {", \"rows\": ", shape.rows},
                                                               {", \"columns\": ", shape.columns},
                                                               {", \"inner\": ", shape.inner}};
  for (const auto& [key, extent] : extents) {
    if (extent == 0) continue;
    put(out, key);
    put(out, extent);
  }
  put(out, "}");
}

void put_kernels(fmt::memory_buffer& out, std::span<const OpWork> kernels) {
  if (kernels.empty()) return;
  put(out, ", \"kernels\": [");
  for (const OpWork& kernel : kernels) {
    put(out, &kernel == kernels.data() ? "{\"flops\": " : ", {\"flops\": ");
    put(out, kernel.flops);
    put(out, ", \"traffic_bytes\": ");
    put(out, kernel.traffic.count);
    if (kernel.weights > Bytes{}) {
      put(out, ", \"weight_bytes\": ");
      put(out, kernel.weights.count);
    }
    if (kernel.precision != Precision::fp32) {
      put(out, ", \"precision\": ");
      append_json_string(out, to_text(kernel.precision));
    }
    put_matrix(out, kernel.matrix);
    put(out, "}");
  }
  put(out, "]");
}

void put_op(fmt::memory_buffer& out, const OpGraph& graph, OpId v) {
  const Op& op = graph.op(v);
  put(out, "{\"name\": ");
  append_json_string(out, graph.name(v));
  put(out, ", \"kind\": ");
  append_json_string(out, graph.kind(v));
  put(out, ", \"phase\": ");
  append_json_string(out, to_text(op.phase));
  if (op.forward != no_op) {
    put(out, ", \"forward\": ");
    append_json_string(out, graph.name(op.forward));
  }
  if (op.lane != compute_lane) {
    put(out, ", \"lane\": ");
    append_json_string(out, graph.lanes()[index(op.lane)]);
  }
  if (const std::string_view module = graph.module(v); !module.empty()) {
    put(out, ", \"module\": ");
    append_json_string(out, module);
  }
  put(out, ", \"compute_us\": ");
  put_compute(out, graph, v);
  put(out, ", \"temporary_bytes\": ");
  put(out, op.temporary.count);
  put(out, ", \"persistent_bytes\": ");
  put(out, op.persistent.count);
  if (graph.cache(v) > Bytes{}) {
    put(out, ", \"cache_bytes\": ");
    put(out, graph.cache(v).count);
  }
  put_kernels(out, graph.kernels(v));
  if (op.group != no_group) {
    put(out, ", \"colocation\": [");
    append_json_string(out, graph.group_name(op.group));
    put(out, "]");
  }
  put_outputs(out, graph, v);
  put(out, "}");
}

/// Writes the data edges or the control edges in the order of their addition; calls `written` after
/// each.
void put_edges(fmt::memory_buffer& out, const OpGraph& graph, bool control, const auto& written) {
  std::vector<EdgeId> order;
  std::uint32_t ranks = 0;
  for (const EdgeId e : graph.edges()) ranks = std::max(ranks, graph.added(e) + 1);
  constexpr EdgeId none{~std::uint32_t{0}};
  order.assign(ranks, none);  // a repeated edge leaves a hole
  for (const EdgeId e : graph.edges())
    if (graph.tensor(graph.edge(e).tensor).control == control) order[graph.added(e)] = e;
  bool first = true;
  for (const EdgeId e : order) {
    if (e == none) continue;
    const Edge& edge = graph.edge(e);
    put(out, first ? "\n  {\"from\": " : ",\n  {\"from\": ");
    first = false;
    append_json_string(out, graph.name(edge.src));
    if (!control) {
      put(out, ", \"output\": ");
      put(out,
          static_cast<std::int64_t>(index(edge.tensor) - index(*graph.outputs(edge.src).begin())));
    }
    put(out, ", \"to\": ");
    append_json_string(out, graph.name(edge.dst));
    put(out, "}");
    written();
  }
  if (!first) put(out, "\n ");
}

void put_collectives(fmt::memory_buffer& out, const OpGraph& graph) {
  if (graph.collectives().empty()) return;
  put(out, ",\n \"collectives\": [");
  for (const Collective& c : graph.collectives()) {
    put(out,
        c.first == graph.collectives().begin()->first ? "\n  {\"kind\": " : ",\n  {\"kind\": ");
    append_json_string(out, to_text(c.kind));
    const auto put_number = [&](std::string_view key, std::int64_t value) {
      put(out, key);
      put(out, value);
    };
    put_number(", \"bytes\": ", c.bytes.count);
    put_number(", \"ranks\": ", c.ranks);
    if (c.nodes != 0) put_number(", \"nodes\": ", c.nodes);
    if (c.sharing != 1) put_number(", \"sharing\": ", c.sharing);
    put(out, ", \"ops\": [");
    for (const OpId v : c.member_ids()) {
      if (v != c.first) put(out, ", ");
      append_json_string(out, graph.name(v));
    }
    put(out, "]}");
  }
  put(out, "\n ]");
}

/// Passes the text of the trace file to `sink` in pieces.
void put_trace(const Trace& trace, const TextSink& sink) {
  fmt::memory_buffer out;
  const auto hand_over = [&] {
    sink({out.data(), out.size()});
    out.clear();
  };
  const auto written = [&] {
    constexpr std::size_t piece = std::size_t{1} << 18U;
    if (out.size() > piece) hand_over();
  };
  put(out, "{\"format\": \"baechi-trace\", \"version\": 1, \"name\": ");
  append_json_string(out, trace.name);
  put(out, ", \"source\": ");
  append_json_string(out, trace.source);
  put(out, ", \"batch\": ");
  put(out, trace.batch);
  put(out, ",\n \"ops\": [");
  for (const OpId v : trace.graph.ops()) {
    put(out, index(v) == 0 ? "\n  " : ",\n  ");
    put_op(out, trace.graph, v);
    written();
  }
  put(out, trace.graph.num_ops() == 0 ? "],\n \"edges\": [" : "\n ],\n \"edges\": [");
  put_edges(out, trace.graph, false, written);
  put(out, "],\n \"controls\": [");
  put_edges(out, trace.graph, true, written);
  put(out, "]");
  put_collectives(out, trace.graph);
  put(out, "}\n");
  hand_over();
}

}  // namespace

std::string trace_json(const Trace& trace) {
  std::string text;
  put_trace(trace, [&text](std::string_view piece) { text += piece; });
  return text;
}

void write_trace(const Trace& trace, const std::string& path) {
  write_file(path, [&trace](const TextSink& sink) { put_trace(trace, sink); });
}

}  // namespace baechi
