#include "sim/transform/what_if/where.h"

#include <cmath>

#include "sim/graph/analysis.h"
#include "sim/text.h"

namespace baechi::what_if {

IdVector<OpId, Bound> bounds_of(const Scope& scope) {
  const OpGraph& graph = scope.graph();
  const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph);
  IdVector<OpId, Bound> bounds(graph.num_ops(), Bound::memory);
  for (const OpId v : graph.ops()) {
    if (!graph.kernels(v).empty() && !scope.devices.models.empty())
      bounds[v] = bound_by_work(graph, v, *scope.devices.models.front());
    else if (on_host(graph, v))
      bounds[v] = Bound::host;
    else if (computes[graph.op(v).kind])
      bounds[v] = Bound::compute;
  }
  return bounds;
}

enum class KnownWork : std::uint8_t { known, unknown };
constexpr auto names_of(KnownWork) { return enumerators<KnownWork::unknown>(); }

namespace {

using Value = Options::Value;

constexpr std::array keys{"name", "kind",  "layer",   "phase", "lane",    "bound", "work",
                          "time", "bytes", "weights", "reads", "read_by", "not",   "any"};

[[noreturn]] void refuse(const Value& value, std::string_view key, std::string_view accepted) {
  throw InputError(
      fmt::format("{}where.{}: '{}' is not {}", at(value.where), key, value.text, accepted));
}

/// A text, or a list of texts.
std::vector<std::string> texts_of(const Value& value, std::string_view key) {
  std::vector<std::string> texts;
  if (!value.text.empty()) texts.push_back(value.text);
  for (const auto& [name, item] : value.children) {
    if (!name.empty() || !item.children.empty() || item.text.empty())
      refuse(item, key, "a text or a list of texts");
    texts.push_back(item.text);
  }
  if (texts.empty()) refuse(value, key, "a text or a list of texts");
  return texts;
}

template <NamedEnum E>
std::vector<E> words_of(const Value& value, std::string_view key) {
  std::vector<E> words;
  for (const std::string& text : texts_of(value, key)) {
    const auto word = parse<E>(text);
    if (!word)
      throw InputError(fmt::format("{}where.{}: {}", at(value.where), key, not_one_of<E>(text)));
    words.push_back(*word);
  }
  return words;
}

/// A condition that tests each op separately.
auto each(std::function<bool(const Scope&, OpId)> test) {
  return [test = std::move(test)](const Scope& scope) {
    Selection selected(scope.graph().num_ops());
    for (const OpId v : scope.graph().ops()) selected[v] = test(scope, v);
    return selected;
  };
}

bool matches_one(const std::vector<std::string>& patterns, std::string_view text) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& p) { return Wildcard{p}.matches(text); });
}

/// Whether one of `patterns` matches the module or an enclosing one.
bool in_layer(std::string_view module, const std::vector<std::string>& patterns) {
  for (std::size_t end = module.find('.');; end = module.find('.', end + 1)) {
    if (matches_one(patterns, module.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
  }
}

/// "<", "<=", "=", ">=" or ">", and a number.
struct Comparison {
  std::string_view sign;
  std::int64_t than = 0;

  bool holds(std::int64_t value) const {
    if (sign == ">") return value > than;
    if (sign == ">=") return value >= than;
    if (sign == "<") return value < than;
    return sign == "<=" ? value <= than : value == than;
  }
};

Comparison comparison_of(const Value& value, std::string_view key) {
  std::string_view text = value.text;
  for (const std::string_view sign : {">=", "<=", ">", "<", "="}) {
    if (!text.starts_with(sign)) continue;
    text.remove_prefix(sign.size());
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (key == "time") {
      if (const auto time = parse_duration(text)) return {sign, time->count()};
    } else if (const auto bytes = parse_bytes(text)) {
      return {sign, bytes->count};
    }
    break;
  }
  refuse(value, key,
         key == "time" ? "a comparison such as '>10 us'" : "a comparison such as '>1 MB'");
}

}  // namespace

Bytes written_by(const OpGraph& graph, OpId v) {
  Bytes sum;
  for (const TensorId t : graph.outputs(v))
    if (!graph.tensor(t).control) sum += graph.tensor(t).size;
  return sum;
}

Where Where::read(const Value* value) {
  Where where;
  if (value == nullptr) return where;
  if (!value->text.empty() || (!value->children.empty() && value->children.front().first.empty()))
    throw InputError(at(value->where) + "where: not a mapping of conditions");
  Mistakes mistakes;
  for (const auto& [key, condition] : value->children)
    mistakes.attempt([&] { where.add(key, condition); });
  mistakes.throw_if_any();
  return where;
}

void Where::add(const std::string& key, const Value& value) {
  if (key == "name") {
    conditions_.emplace_back(each([texts = texts_of(value, key)](const Scope& s, OpId v) {
      return matches_one(texts, s.graph().name(v));
    }));
  } else if (key == "kind") {
    conditions_.emplace_back([words = KindWords(texts_of(value, key))](const Scope& s) {
      const std::vector<bool> described = words.of_kinds(s.graph());
      return each([&](const Scope&, OpId v) -> bool { return described[s.graph().op(v).kind]; })(s);
    });
  } else if (key == "layer") {
    conditions_.emplace_back(each([texts = texts_of(value, key)](const Scope& s, OpId v) {
      return in_layer(s.graph().module(v), texts);
    }));
  } else if (key == "phase") {
    conditions_.emplace_back(each([phases = words_of<Phase>(value, key)](const Scope& s, OpId v) {
      return std::ranges::find(phases, s.graph().op(v).phase) != phases.end();
    }));
  } else if (key == "lane") {
    conditions_.emplace_back(each([texts = texts_of(value, key)](const Scope& s, OpId v) {
      return matches_one(texts, s.graph().lanes()[index(s.graph().lane(v))]);
    }));
  } else if (key == "bound") {
    conditions_.emplace_back([bounds = words_of<Bound>(value, key)](const Scope& s) {
      const IdVector<OpId, Bound> known = bounds_of(s);
      return each([&](const Scope&, OpId v) {
        return std::ranges::find(bounds, known[v]) != bounds.end();
      })(s);
    });
  } else if (key == "work") {
    conditions_.emplace_back(each([wanted = words_of<KnownWork>(value, key)](const Scope& s,
                                                                             OpId v) {
      const KnownWork work = s.graph().kernels(v).empty() ? KnownWork::unknown : KnownWork::known;
      return std::ranges::find(wanted, work) != wanted.end();
    }));
  } else if (key == "time" || key == "bytes" || key == "weights") {
    add_quantity(key, value);
  } else {
    add_nested(key, value);
  }
}

void Where::add_quantity(const std::string& key, const Value& value) {
  const Comparison compare = comparison_of(value, key);
  if (key == "time") {
    needs_times_ = true;
    conditions_.emplace_back(each([compare](const Scope& s, OpId v) {
      const auto time = s.graph().compute(v, 0);
      return time && compare.holds(time->count());
    }));
  } else if (key == "bytes") {
    conditions_.emplace_back(each([compare](const Scope& s, OpId v) {
      return compare.holds(written_by(s.graph(), v).count);
    }));
  } else {
    conditions_.emplace_back(each([compare](const Scope& s, OpId v) {
      return compare.holds(s.graph().op(v).persistent.count);
    }));
  }
}

void Where::add_nested(const std::string& key, const Value& value) {
  if (key == "reads" || key == "read_by") {
    Where inner = read(&value);
    needs_times_ = needs_times_ || inner.needs_times_;
    conditions_.emplace_back(
        [inner = std::move(inner), forwards = key == "read_by"](const Scope& s) {
          const OpGraph& graph = s.graph();
          const Selection fulfil = inner.select(s);
          Selection selected(graph.num_ops());
          for (const EdgeId e : graph.edges()) {
            const Edge& edge = graph.edge(e);
            if (graph.tensor(edge.tensor).control) continue;
            if (forwards && fulfil[edge.dst]) selected[edge.src] = true;
            if (!forwards && fulfil[edge.src]) selected[edge.dst] = true;
          }
          return selected;
        });
  } else if (key == "not") {
    Where inner = read(&value);
    needs_times_ = needs_times_ || inner.needs_times_;
    conditions_.emplace_back([inner = std::move(inner)](const Scope& s) {
      Selection selected = inner.select(s);
      for (const OpId v : selected.ids()) selected[v] = !selected[v];
      return selected;
    });
  } else if (key == "any") {
    if (value.children.empty() || !value.children.front().first.empty())
      refuse(value, key, "a list of conditions");
    std::vector<Where> all;
    for (const auto& [none, item] : value.children) all.push_back(read(&item));
    for (const Where& inner : all) needs_times_ = needs_times_ || inner.needs_times_;
    conditions_.emplace_back([all = std::move(all)](const Scope& s) {
      Selection selected(s.graph().num_ops());
      for (const Where& inner : all) {
        const Selection more = inner.select(s);
        for (const OpId v : more.ids()) selected[v] = selected[v] || more[v];
      }
      return selected;
    });
  } else {
    throw InputError(
        fmt::format("{}where has no condition '{}'{} (conditions: {})", at(value.where), key,
                    did_you_mean(key, std::vector<std::string>(keys.begin(), keys.end())),
                    fmt::join(keys, ", ")));
  }
}

Selection Where::select(const Scope& scope) const {
  Selection selected(scope.graph().num_ops(), true);
  for (const Condition& condition : conditions_) {
    const Selection those = condition(scope);
    for (const OpId v : selected.ids()) selected[v] = selected[v] && those[v];
  }
  return selected;
}

Bytes Amount::of(Bytes whole) const {
  return fixed +
         Bytes{static_cast<std::int64_t>(std::ceil(share * static_cast<double>(whole.count)))};
}

std::optional<Amount> read_amount(Options& o, const std::string& key, std::string_view help) {
  constexpr double most = 1000.0;
  const std::string text = o.get(key, "", help);
  if (text.empty()) return std::nullopt;
  if (text.ends_with('x')) {
    const auto share = parse_number<double>(std::string_view(text).substr(0, text.size() - 1));
    if (share && *share >= 0.0 && *share <= most) return Amount{.share = *share};
  } else if (const auto bytes = parse_bytes(text)) {
    return Amount{.fixed = *bytes};
  }
  o.mistake(key,
            fmt::format("'{}' is neither a size such as '4 MB' nor a share such as '0.25x'", text));
  return std::nullopt;
}

namespace {

/// Changes the measured transfer times of `tensors`; a tensor without one gets `changed(0)`.
OpGraph with_transfers(const OpGraph& graph, const IdVector<TensorId, bool>& tensors,
                       const std::function<Duration(Duration)>& changed) {
  IdVector<TensorId, Duration> times(graph.num_tensors(), Duration{-1});
  for (const TensorId t : graph.tensors()) {
    const auto measured = graph.measured_transfer(t);
    if (measured) times[t] = *measured;
    if (tensors[t]) times[t] = changed(measured.value_or(Duration{}));
  }
  return graph.with_transfers(std::move(times));
}

}  // namespace

std::optional<Where> read_where(Options& o, const std::string& key, std::string_view help) {
  const Options::Value* given = o.raw(key, help);
  if (given == nullptr) return std::nullopt;
  try {
    return Where::read(given);
  } catch (const InputError& e) {
    o.mistake(key, e.what());
    return std::nullopt;
  }
}

IdVector<TensorId, bool> tensors_of(const Scope& scope, const Selection& selected,
                                    const std::optional<Where>& to) {
  const OpGraph& graph = scope.graph();
  const Selection readers = to ? to->select(scope) : Selection(graph.num_ops(), true);
  IdVector<TensorId, bool> tensors(graph.num_tensors());
  for (const TensorId t : graph.tensors()) {
    const Tensor& tensor = graph.tensor(t);
    if (tensor.control || !selected[tensor.producer]) continue;
    tensors[t] = !to || std::ranges::any_of(graph.readers(t), [&](EdgeId e) {
      return bool{readers[graph.edge(e).dst]};
    });
  }
  return tensors;
}

Change with_attributes(const Scope& scope, const Selection& selected, const Attributes& changed) {
  const OpGraph& given = scope.graph();
  const IdVector<TensorId, bool> tensors = tensors_of(scope, selected, changed.to);
  const OpGraph graph = changed.transfer ? with_transfers(given, tensors, changed.transfer) : given;
  Copying copying(graph);
  copying.respec = [&](OpId v, OpSpec& spec) {
    if (!selected[v]) return;
    if (changed.weights) spec.persistent = changed.weights(spec.persistent);
    if (changed.workspace) spec.temporary = changed.workspace(spec.temporary);
    if (changed.lane) {
      if (graph.collective_of(v) != no_collective)
        throw InputError(
            fmt::format("'{}' is a member of a collective: its lane stays", graph.name(v)));
      spec.lane = *changed.lane;
    }
  };
  if (changed.time)
    copying.retime = [&](OpId v, Duration time, std::size_t) {
      return selected[v] && graph.collective_of(v) == no_collective ? changed.time(time) : time;
    };
  if (changed.flops || changed.traffic)
    copying.rework = [&](OpId v, OpWork work) {
      if (!selected[v]) return work;
      if (changed.flops) work.flops = changed.flops(work.flops);
      if (changed.traffic) {
        const Bytes before = work.traffic;
        work.traffic = changed.traffic(before);
        if (work.weights > Bytes{})  // in proportion
          work.weights = static_cast<double>(work.traffic.count) /
                         static_cast<double>(before.count) * work.weights;
      }
      return work;
    };
  if (changed.bytes) {
    copying.resize = [&](TensorId t) {
      const Bytes size = graph.tensor(t).size;
      return tensors[t] ? changed.bytes(size) : size;
    };
    copying.copy().change_collectives(
        [&](const Collective& c) { return selected[c.first] ? changed.bytes(c.bytes) : c.bytes; });
  }
  return std::move(copying).whole();
}

}  // namespace baechi::what_if
