#include "sim/transform/graph_copy.h"

#include <cctype>
#include <cmath>

#include "sim/text.h"

namespace baechi {

std::string copy_mark(const OpGraph& graph) {
  std::string mark = "@";
  const auto has_mark = [&](OpId v) { return graph.name(v).find(mark) != std::string_view::npos; };
  while (std::ranges::any_of(graph.ops(), has_mark)) mark += '@';
  return mark;
}

GraphCopy::GraphCopy(const OpGraph& graph) : graph_(graph), copy_(graph.num_ops(), no_op) {
  group_.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) group_.push_back(graph.op(v).group);
  for (const GroupId g : graph.groups()) group_names_.push_back(graph.group_name(g));
}

OpSpec spec_of(const OpGraph& graph, OpId v) {
  const Op& op = graph.op(v);
  return {.name = graph.name(v),
          .kind = graph.kind(v),
          .compute = graph.device_kinds().empty() ? op.compute : Duration{},
          .persistent = op.persistent,
          .temporary = op.temporary,
          .phase = op.phase,
          .lane = graph.lanes()[index(op.lane)],
          .module = graph.module(v),
          .cache = graph.cache(v)};
}

OpId GraphCopy::add(OpId v, const OpSpec& spec, const Timing& timing) {
  const auto changed = [&](Duration time, std::size_t kind) {
    return timing ? timing(time, kind) : std::optional(time);
  };
  OpSpec timed = spec;
  timed.compute = changed(spec.compute, 0).value_or(Duration{});
  const OpId copy = builder_.add_op(timed);
  const auto& kinds = graph_.device_kinds();
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto time = graph_.compute(v, k);
    builder_.set_compute(copy, kinds[k], time ? changed(*time, k) : std::nullopt);
  }
  join(copy, v);
  if (copy_[v] == no_op) copy_[v] = copy;
  return copy;
}

void GraphCopy::colocate(OpId made, OpId v) {
  if (group_[v] == no_group) {
    group_names_.emplace_back(graph_.name(v));
    group_[v] = static_cast<GroupId>(group_names_.size());
    join(copy_[v], v);
  }
  join(made, v);
}

void GraphCopy::add_kernels(OpId v, OpId copy, const std::function<OpWork(OpWork)>& change) {
  for (const OpWork& kernel : graph_.kernels(v))
    builder_.add_kernel(copy, change ? change(kernel) : kernel);
}

TensorId GraphCopy::add_tensor(TensorId t, OpId copy, Bytes size, bool added) {
  const Tensor& tensor = graph_.tensor(t);
  Tensor like = tensor;
  like.reference |= added;
  const TensorId made = builder_.add_tensor(copy, size, like);
  if (const auto time = graph_.measured_transfer(t)) {
    const double share = tensor.size > Bytes{} ? static_cast<double>(size.count) /
                                                     static_cast<double>(tensor.size.count)
                                               : 1.0;
    builder_.set_transfer(
        made, Duration{saturated(std::round(share * static_cast<double>(time->count())))});
  }
  return made;
}

OpId GraphCopy::add_whole(OpId v, IdVector<TensorId, TensorId>& tensors, const Timing& timing) {
  const OpId made = add(v, spec(v), timing);
  add_kernels(v, made);
  for (const TensorId t : graph_.outputs(v))
    if (!graph_.tensor(t).control) tensors[t] = add_tensor(t, made, graph_.tensor(t).size);
  return made;
}

void GraphCopy::add_all(const std::function<std::optional<Duration>(OpId, Duration)>& timing) {
  IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
  for (const OpId v : graph_.ops())
    add_whole(v, tensors,
              timing ? [&](Duration t, std::size_t) { return timing(v, t); } : Timing());
  add_edges(tensors);
}

void GraphCopy::add_edges(const IdVector<TensorId, TensorId>& tensor,
                          const std::function<bool(const Edge&)>& keep) {
  std::vector<EdgeId> edges;
  for (const OpId v : graph_.ops()) {
    const auto out = graph_.out_edges(v);
    edges.assign(out.begin(), out.end());
    std::ranges::sort(edges, {}, [this](EdgeId e) { return graph_.added(e); });
    for (const EdgeId e : edges) {
      const Edge& edge = graph_.edge(e);
      if (copy_[edge.src] == no_op || copy_[edge.dst] == no_op || (keep && !keep(edge))) continue;
      if (graph_.tensor(edge.tensor).control)
        builder_.add_control(copy_[edge.src], copy_[edge.dst]);
      else
        builder_.add_edge(tensor[edge.tensor], copy_[edge.dst]);
    }
  }
}

Transformed GraphCopy::built(IdVector<OpId, OpId>* renumbered) && {
  for (const OpId v : graph_.ops()) {
    const OpId forward = graph_.op(v).forward;
    if (forward != no_op && copy_[v] != no_op && copy_[forward] != no_op)
      builder_.set_forward(copy_[v], copy_[forward]);
  }
  for (const OpId v : graph_.ops()) {
    const auto [first, number] = graph_.micro_batch(v);
    if (first != v && copy_[v] != no_op && copy_[first] != no_op)
      builder_.set_micro_batch(copy_[v], {copy_[first], number});
  }
  for (const Collective& c : graph_.collectives()) {
    if (!collectives_) break;
    std::vector<OpId> members;
    for (const OpId v : c.member_ids())
      if (copy_[v] != no_op) members.push_back(copy_[v]);
    if (members.empty()) continue;
    if (members.size() != c.members)
      throw InputError(fmt::format("the {} of '{}' cannot lose some of its members",
                                   to_text(c.kind), graph_.name(c.first)));
    Collective changed = c;
    if (collective_bytes_) changed.bytes = collective_bytes_(c);
    builder_.add_collective(changed, members);
  }
  IdVector<OpId, OpId> new_id;
  Transformed result{.graph = std::move(builder_).build(&new_id)};
  IdVector<OpId, GroupId> group(result.graph.num_ops(), no_group);
  for (const auto& [made, of] : grouped_) group[new_id[made]] = of;
  if (!grouped_.empty()) result.graph = std::move(result.graph).with_groups(group, group_names_);
  if (graph_.free_controls()) result.graph = std::move(result.graph).with_free_controls();
  for (const OpId v : graph_.ops())
    result.mapped_op.push_back(copy_[v] == no_op ? no_op : new_id[copy_[v]]);
  if (renumbered != nullptr) *renumbered = std::move(new_id);
  return result;
}

namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_pattern(std::string_view word) {
  return word.find_first_of("*?") != std::string_view::npos;
}

}  // namespace

KindWords KindWords::read(Options& options, const std::string& key,
                          std::vector<std::string> fallback, std::string_view help) {
  const Options::Value* given =
      options.raw(key, fallback.empty() ? std::string(help)
                                        : fmt::format("{} [{}]", help, fmt::join(fallback, ", ")));
  if (given == nullptr) return KindWords(std::move(fallback));
  std::vector<std::string> words;
  if (!given->text.empty()) words.push_back(given->text);
  for (const auto& [name, word] : given->children) {
    if (!name.empty() || !word.children.empty() || word.text.empty())
      options.mistake(key, "not a list of kinds of ops");
    words.push_back(word.text);
  }
  return KindWords(std::move(words));
}

KindWords KindWords::patterns_and(const KindWords& others) const {
  KindWords taken;
  for (const std::string& word : words_)
    if (is_pattern(word) || others.describe(word)) taken.words_.push_back(word);
  return taken;
}

bool KindWords::describe(std::string_view kind) const {
  const std::string lower = lower_case(kind);
  return std::ranges::any_of(words_, [&](const std::string& word) {
    const std::string pattern = lower_case(word);
    if (is_pattern(pattern)) return Wildcard{pattern}.matches(lower);
    return lower.find(pattern) != std::string::npos;
  });
}

std::vector<bool> KindWords::of_kinds(const OpGraph& graph) const {
  std::vector<bool> described;
  for (const std::string& kind : graph.kinds()) described.push_back(describe(kind));
  return described;
}

const KindWords& compute_bound_kinds() {
  static const KindWords words({"conv", "matmul", "gemm", "linear", "dense", "attention", "lstm",
                                "gru", "bmm", "addmm", "einsum", "aten::mm"});
  return words;
}

}  // namespace baechi
