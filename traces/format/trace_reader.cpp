#include "traces/format/json.h"
#include "traces/format/json_string.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace {

constexpr std::string_view format_name = "baechi-trace";

constexpr std::string_view file_names[] = {"format", "version", "ops",      "name",       "source",
                                           "batch",  "edges",   "controls", "collectives"};
constexpr JsonKeys file_keys{"a trace", file_names, 3};
constexpr std::string_view op_names[] = {
    "name",    "kind",       "phase",           "forward",          "lane",
    "module",  "compute_us", "temporary_bytes", "persistent_bytes", "cache_bytes",
    "kernels", "colocation", "outputs"};
constexpr JsonKeys op_keys{"an op", op_names, 1};
enum class OpKey : std::size_t {  // indices of op_names
  name,
  kind,
  phase,
  forward,
  lane,
  module,
  compute_us,
  temporary_bytes,
  persistent_bytes,
  cache_bytes,
  kernels,
  colocation,
  outputs
};
static_assert(std::size(op_names) == static_cast<std::size_t>(OpKey::outputs) + 1);
constexpr std::string_view kernel_names[] = {"flops", "traffic_bytes", "weight_bytes", "precision",
                                             "matrix"};
constexpr JsonKeys kernel_keys{"a kernel", kernel_names, 0};
constexpr std::string_view matrix_names[] = {"kind", "count", "rows", "columns", "inner"};
constexpr JsonKeys matrix_keys{"a matrix", matrix_names, 1};
constexpr std::string_view output_names[] = {"bytes", "transfer_us", "reference", "fixed_size"};
constexpr JsonKeys output_keys{"an output", output_names, 1};
constexpr std::string_view edge_names[] = {"from", "to", "output"};
constexpr JsonKeys edge_keys{"an edge", edge_names, 2};
enum class EdgeKey : std::size_t { from, to, output };  // indices of edge_names
static_assert(std::size(edge_names) == static_cast<std::size_t>(EdgeKey::output) + 1);
constexpr std::string_view collective_names[] = {"kind",  "bytes", "ops",
                                                 "ranks", "nodes", "sharing"};
constexpr JsonKeys collective_keys{"a collective", collective_names, 3};
constexpr JsonKeys control_keys{"a control", std::span(edge_names).first(2), 2};

/// The time in "12.5": microseconds with at most three decimals, as put_us() writes them.
std::optional<Duration> exact_microseconds(std::string_view text) {
  constexpr std::size_t longest = 20;                   // 16 digits, the point and 3 digits
  constexpr std::int64_t most = 4'600'000'000'000'000;  // the limit of from_us()
  if (text.empty() || text.size() > longest || text.front() == '.') return std::nullopt;
  std::int64_t ns = 0;
  std::size_t i = 0;
  const auto digit = [&] { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (; digit() && i < 17; ++i) ns = 10 * ns + (text[i] - '0');
  if (i > 16 || ns > most || (i > 1 && text.front() == '0')) return std::nullopt;
  std::int64_t unit = 1000;
  if (i < text.size() && text[i] == '.') {
    for (++i; digit() && unit > 1; ++i, unit /= 10) ns = 10 * ns + (text[i] - '0');
    if (unit == 1000) return std::nullopt;  // "1."
  }
  return i == text.size() ? std::optional(Duration{ns * unit}) : std::nullopt;
}

Duration microseconds(Json& value) {
  if (const auto time = exact_microseconds(value.token())) return *time;
  const auto time = from_us(value.number());
  if (!time) value.is_not("a time below 146 years");
  return time.value_or(Duration{});
}

/// Beginnings of the sources of graphs that state work alone.
constexpr std::array<std::string_view, 4> sources_without_times{
    "from the published structure", "HLO text of XLA", "StableHLO", "ONNX, opset "};

class TraceReader {
 public:
  explicit TraceReader(TextFile& file) : path_(file.path()), file_(file) {}

  Trace read();

 private:
  template <class Name, class Where>
  struct NameAt {
    Name name;
    Where where{};
  };
  using Reference = NameAt<std::string_view, std::size_t>;  // valid during the current piece
  using OwnedReference = NameAt<std::string, JsonPlace>;
  template <class Name>
  struct FileEdge {
    Name from, to;
    std::int64_t output = 0;
    bool control = false;
  };
  struct FileCollective {
    Collective collective;
    std::vector<OwnedReference> ops;
  };
  struct Output {
    Bytes size;
    std::optional<Duration> transfer;
    bool reference = false, fixed_size = false;
  };

  void read_op(Json value);
  void read_compute(Json& value, OpSpec& op);
  void read_output(Json value);
  static MatrixShape read_matrix(Json value);
  void read_kernel(Json value);
  void read_edge(Json value, bool control);
  void read_collective(Json value);
  void add_collectives();
  static Reference reference(Json& value) { return {value.string(), value.offset()}; }
  OwnedReference owned(const Reference& r) { return {std::string(r.name), file_.place(r.where)}; }
  std::optional<OpId> find(std::string_view name);
  /// The op named by `reference`; a mistake and nullopt if there is none.
  std::optional<OpId> resolve(const auto& reference, std::string_view key);
  void add(const auto& edge);
  void add_waiting();

  std::string path_;
  JsonFile file_;
  OpGraphBuilder builder_;
  std::vector<std::uint32_t> first_tensor_{0};                 // [num_ops + 1]
  std::vector<OpId> recent_ = std::vector<OpId>(4096, no_op);  // by hash of the op's name
  OpId last_reader_ = no_op;
  bool have_ops_ = false;
  std::vector<FileEdge<OwnedReference>> waiting_;          // edges that precede the ops in the file
  std::vector<std::pair<OpId, OwnedReference>> forwards_;  // `forward` references to later ops
  std::vector<FileCollective> collectives_;
  std::size_t unresolved_ = 0;
  bool modelled_ = false;  // times are not measured ones
  std::size_t left_out_ = 0;
  // The op being read; times_: by device type.
  std::vector<std::pair<std::string_view, std::optional<Duration>>> times_;
  std::vector<OpWork> kernels_;
  std::vector<Output> outputs_;
  std::vector<std::string_view> labels_;
};

void TraceReader::read_compute(Json& value, OpSpec& op) {
  if (!value.is_object()) {
    op.compute = microseconds(value);
    return;
  }
  value.entries([&](std::string_view kind, Json time) {
    for (const auto& [other, unused] : times_)
      if (other == kind) time.mistake(fmt::format("two times for device type '{}'", kind));
    if (time.is_null())
      times_.emplace_back(kind, std::nullopt);
    else
      times_.emplace_back(kind, microseconds(time));
  });
}

void TraceReader::read_output(Json value) {
  Output output{};
  value.object(output_keys, [&](std::string_view key, Json v) {
    if (key == "bytes")
      output.size = {v.whole()};
    else if (key == "reference")
      output.reference = v.boolean();
    else if (key == "fixed_size")
      output.fixed_size = v.boolean();
    else
      output.transfer = microseconds(v);
  });
  outputs_.push_back(output);
}

MatrixShape TraceReader::read_matrix(Json value) {
  MatrixShape shape;
  int missing = 4;
  value.object(matrix_keys, [&](std::string_view key, Json v) {
    if (key == "kind") {
      shape.kind = v.one_of<MatrixKind>();
      return;
    }
    std::int64_t& extent = key == "count"     ? shape.count
                           : key == "rows"    ? shape.rows
                           : key == "columns" ? shape.columns
                                              : shape.inner;
    extent = v.whole();
    if (extent > 0) --missing;
  });
  if (shape.kind != MatrixKind::none && missing != 1)
    value.mistake(
        "exactly one of 'count', 'rows', 'columns' and 'inner' must be missing or 0: it follows "
        "from the flops");
  return shape;
}

void TraceReader::read_kernel(Json value) {
  OpWork kernel;
  value.object(kernel_keys, [&](std::string_view key, Json v) {
    if (key == "flops")
      kernel.flops = v.whole();
    else if (key == "traffic_bytes")
      kernel.traffic = {v.whole()};
    else if (key == "weight_bytes")
      kernel.weights = {v.whole()};
    else if (key == "precision")
      kernel.precision = v.one_of<Precision>();
    else
      kernel.matrix = read_matrix(v);
  });
  if (kernel.weights > kernel.traffic)
    value.mistake("'weight_bytes' are a part of 'traffic_bytes', but are larger");
  kernels_.push_back(kernel);
}

void TraceReader::read_op(Json value) {
  OpSpec op{};
  Reference forward;
  times_.clear();
  kernels_.clear();
  outputs_.clear();
  labels_.clear();
  value.object(op_keys, [&](JsonKey key, Json v) {
    switch (static_cast<OpKey>(key.index)) {
      case OpKey::name:
        op.name = v.string();
        if (builder_.find(op.name)) v.mistake(fmt::format("two ops are named '{}'", op.name));
        return;
      case OpKey::kind:
        op.kind = v.string();
        return;
      case OpKey::phase:
        op.phase = v.one_of<Phase>();
        return;
      case OpKey::forward:
        forward = reference(v);
        return;
      case OpKey::lane:
        op.lane = v.string();
        return;
      case OpKey::module:
        op.module = v.string();
        return;
      case OpKey::compute_us:
        return read_compute(v, op);
      case OpKey::temporary_bytes:
        op.temporary = {v.whole()};
        return;
      case OpKey::persistent_bytes:
        op.persistent = {v.whole()};
        return;
      case OpKey::cache_bytes:
        op.cache = {v.whole()};
        return;
      case OpKey::kernels:
        return v.list([&](Json kernel) { read_kernel(kernel); });
      case OpKey::colocation:
        return v.list([&](Json label) { labels_.push_back(label.string()); });
      case OpKey::outputs:
        return v.list([&](Json output) { read_output(output); });
    }
  });
  const OpId id = builder_.add_op(op);
  for (const OpWork& kernel : kernels_) builder_.add_kernel(id, kernel);
  if (modelled_)
    left_out_ += times_.size();
  else
    for (const auto& [kind, time] : times_) builder_.set_compute(id, kind, time);
  for (const Output& output : outputs_) {
    const TensorId t = builder_.add_tensor(id, output.size, output.reference);
    if (output.fixed_size) builder_.set_fixed_size(t);
    if (output.transfer) builder_.set_transfer(t, *output.transfer);
  }
  first_tensor_.push_back(first_tensor_.back() + static_cast<std::uint32_t>(outputs_.size()));
  for (const std::string_view label : labels_) builder_.colocate(id, label);
  if (forward.where == 0) return;
  if (const auto v = builder_.find(forward.name))
    builder_.set_forward(id, *v);
  else
    forwards_.emplace_back(id, owned(forward));
}

void TraceReader::read_edge(Json value, bool control) {
  FileEdge<Reference> edge{.from = {}, .to = {}, .control = control};
  value.object(control ? control_keys : edge_keys, [&](JsonKey key, Json v) {
    switch (static_cast<EdgeKey>(key.index)) {
      case EdgeKey::from:
        edge.from = reference(v);
        return;
      case EdgeKey::to:
        edge.to = reference(v);
        return;
      case EdgeKey::output:
        edge.output = v.whole();
        return;
    }
  });
  if (edge.from.where == 0 || edge.to.where == 0) return;  // a missing key, reported before
  if (have_ops_)
    add(edge);
  else
    waiting_.push_back({owned(edge.from), owned(edge.to), edge.output, control});
}

void TraceReader::read_collective(Json value) {
  FileCollective c;
  value.object(collective_keys, [&](std::string_view key, Json v) {
    const auto number = [&](std::uint32_t& to) {
      const std::int64_t n = v.whole();
      constexpr std::uint32_t most = 1U << 24U;
      if (n > most) v.is_not(fmt::format("a number up to {}", most));
      to = static_cast<std::uint32_t>(std::min<std::int64_t>(n, most));
    };
    if (key == "kind")
      c.collective.kind = v.one_of<CollectiveKind>();
    else if (key == "bytes")
      c.collective.bytes = {v.whole()};
    else if (key == "ranks")
      number(c.collective.ranks);
    else if (key == "nodes")
      number(c.collective.nodes);
    else if (key == "sharing")
      number(c.collective.sharing);
    else
      v.list([&](Json op) { c.ops.push_back(owned(reference(op))); });
  });
  if (c.collective.sharing == 0)
    value.mistake("sharing: 0, but the collective itself is included: 1 or more");
  if (c.ops.empty()) value.mistake("a collective without ops");
  collectives_.push_back(std::move(c));
}

void TraceReader::add_collectives() {
  for (const FileCollective& c : collectives_) {
    std::vector<OpId> members;
    for (const OwnedReference& op : c.ops)
      if (const auto v = resolve(op, "ops")) members.push_back(*v);
    if (members.size() == c.ops.size() && !members.empty())
      builder_.add_collective(c.collective, members);
  }
}

/// builder_.find(name) with two caches, because a look-up in the table of all names is a cache
/// miss: most edges name an op that was named recently, or the op after the last reader.
std::optional<OpId> TraceReader::find(std::string_view name) {
  const auto is = [&](OpId v) {
    return index(v) < builder_.num_ops() && same_text(builder_.name(v), name);
  };
  OpId& recent = recent_[hash_of_text(name) % recent_.size()];
  if (is(recent)) return recent;
  const auto next = static_cast<OpId>(index(last_reader_) + 1);
  const auto found = is(next) ? std::optional(next) : builder_.find(name);
  if (found) recent = *found;
  return found;
}

std::optional<OpId> TraceReader::resolve(const auto& reference, std::string_view key) {
  if (const auto v = find(reference.name)) return v;
  std::vector<std::string> names;  // suggestions, for the first mistakes in small graphs
  if (++unresolved_ <= 20 && builder_.num_ops() <= 10'000)
    for (const OpId v : id_range<OpId>(0, builder_.num_ops())) names.emplace_back(builder_.name(v));
  file_.mistake(reference.where, fmt::format("{}: no op '{}'{}", key, reference.name.substr(0, 60),
                                             did_you_mean(reference.name, names)));
  return std::nullopt;
}

void TraceReader::add(const auto& edge) {
  const auto from = resolve(edge.from, "from");
  const auto to = resolve(edge.to, "to");
  if (!from || !to) return;
  last_reader_ = *to;
  if (edge.control) return builder_.add_control(*from, *to);
  const std::uint32_t first = first_tensor_[index(*from)];
  const std::uint32_t count = first_tensor_[index(*from) + 1] - first;
  if (edge.output >= count) {
    file_.mistake(edge.from.where,
                  count == 0
                      ? fmt::format("output: '{}' has no outputs", edge.from.name)
                      : fmt::format("output: {} is not an output of '{}', which has {}, from 0",
                                    edge.output, edge.from.name, count));
    return;
  }
  builder_.add_edge(static_cast<TensorId>(first + static_cast<std::uint32_t>(edge.output)), *to);
}

void TraceReader::add_waiting() {
  for (const auto& edge : std::exchange(waiting_, {})) add(edge);
}

Trace TraceReader::read() {
  Trace trace;
  file_.object(file_keys, [&](std::string_view key, Json v) {
    if (key == "format") {
      v.one_of({&format_name, 1});
    } else if (key == "version") {
      if (v.token() != "1") v.is_not("1, the supported version");
    } else if (key == "name") {
      trace.name = v.string();
    } else if (key == "source") {
      trace.source = v.string();
      modelled_ = std::ranges::any_of(sources_without_times, [&](std::string_view known) {
        return trace.source.starts_with(known);
      });
    } else if (key == "batch") {
      trace.batch = v.whole();
    } else if (key == "ops") {
      v.list([&](Json op) { read_op(op); });
      have_ops_ = true;
    } else if (key == "collectives") {
      v.list([&](Json collective) { read_collective(collective); });
    } else {
      if (have_ops_) add_waiting();
      v.list([&, control = key == "controls"](Json edge) { read_edge(edge, control); });
    }
  });
  add_waiting();
  for (const auto& [op, forward] : forwards_)
    if (const auto v = resolve(forward, "forward")) builder_.set_forward(op, *v);
  add_collectives();
  file_.finish();
  first_tensor_ = {};
  trace.graph = build_graph(std::move(builder_), path_);
  note_count(trace.notes, left_out_,
             "warning: {} times are left out: nobody measures ops of this source, and version "
             "1.0.0 wrote times of its roofline. The ops' work gives times (--kind)");
  return trace;
}

}  // namespace

bool looks_like_baechi_trace(std::string_view beginning) {
  return beginning.find(format_name) != std::string_view::npos;
}

Trace read_baechi_trace(TextFile& file, Options& /*options*/) { return TraceReader(file).read(); }

}  // namespace baechi
