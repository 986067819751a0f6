#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {
namespace {

/// Part `k` of `parts` equal parts of `whole`, in whole numbers that sum to it.
std::int64_t part_of(std::int64_t whole, std::int64_t k, std::int64_t parts) {
  const std::int64_t each = whole / parts, left = whole % parts;
  return each + (k < left ? 1 : 0);
}

/// Splits an op into parts with equal shares of its time, work, workspace and outputs. All parts
/// read all inputs of the op, and its readers read all parts; but if producer and reader are split
/// into as many parts, each part reads its counterpart. Weights stay with the first part, which has
/// the op's name. A collective becomes several collectives with a part of its bytes each.
class Split final : public Verb {
 public:
  explicit Split(Options& o)
      : parts_(o.get("parts", std::int64_t{0}, "number of parts; 0: by bytes", 0, most)),
        bytes_(o.get("bytes", Bytes{4'000'000}, "or parts of at most this size")) {
    if (bytes_ <= Bytes{}) o.mistake("bytes", "a part has bytes");
  }

  Change apply(const Scope& scope, const Selection& selected) const override {
    return Splitting(scope.graph(), *this, selected).run();
  }

 private:
  static constexpr std::int64_t most = 10'000;

  class Splitting {
   public:
    Splitting(const OpGraph& graph, const Split& o, const Selection& selected)
        : graph_(graph),
          copying_(graph),
          parts_(graph.num_ops(), 1),
          made_(graph.num_ops()),
          tensors_(graph.num_tensors()) {
      for (const OpId v : graph.ops())
        if (selected[v]) parts_[v] = o.parts_of(graph, v);
      for (const Collective& c : graph.collectives())
        for (const OpId v : c.member_ids())
          if (selected[v] != selected[c.first])
            throw InputError(fmt::format("all members of the {} of '{}' are split, or none",
                                         to_text(c.kind), graph.name(c.first)));
    }

    Change run() {
      check_size();
      copying_.respec = [&](OpId v, OpSpec& spec) {
        spec.temporary = {part_of(spec.temporary.count, 0, parts_[v])};
      };
      copying_.retime = [&](OpId v, Duration time, std::size_t) { return part(v, time, 0); };
      copying_.rework = [&](OpId v, OpWork work) { return part(v, work, 0); };
      copying_.resize = [&](TensorId t) {
        const Tensor& tensor = graph_.tensor(t);
        return Bytes{part_of(tensor.size.count, 0, parts_[tensor.producer])};
      };
      copying_.after = [&](OpId v) { add_parts(v); };
      copying_.ops();
      copying_.copy().change_collectives(
          [&](const Collective& c) { return Bytes{part_of(c.bytes.count, 0, parts_[c.first])}; });
      copying_.edges([&](const Edge& e) { return parts_[e.src] == 1 && parts_[e.dst] == 1; });
      for (const EdgeId e : graph_.edges()) add_edges(graph_.edge(e));
      add_collectives();
      Change change = std::move(copying_).built();
      change.reworked.clear();  // the parts' times are known
      return change;
    }

   private:
    void check_size() const {
      constexpr std::int64_t most_parts = 10'000'000;
      std::int64_t parts = 0;
      for (const OpId v : graph_.ops()) parts += parts_[v];
      for (const EdgeId e : graph_.edges()) {
        const Edge& edge = graph_.edge(e);
        parts += parts_[edge.src] * parts_[edge.dst];
      }
      if (parts > most_parts)
        throw InputError(fmt::format("{} ops and edges (at most {})", parts, most_parts));
    }
    Duration part(OpId v, Duration time, std::int64_t k) const {
      return Duration{part_of(time.count(), k, parts_[v])};
    }
    OpWork part(OpId v, OpWork work, std::int64_t k) const {
      work.flops = part_of(work.flops, k, parts_[v]);
      work.traffic = {part_of(work.traffic.count, k, parts_[v])};
      work.weights = std::min(work.traffic, {part_of(work.weights.count, k, parts_[v])});
      return work;
    }

    void add_parts(OpId v) {
      made_[v].push_back(copying_.made(v));
      for (const TensorId t : graph_.outputs(v))
        if (!graph_.tensor(t).control) tensors_[t].push_back(copying_.tensor(t));
      for (std::int64_t k = 1; k < parts_[v]; ++k) {
        OpSpec spec = copying_.copy().spec(v);
        const std::string name = copying_.unique_name(fmt::format("{}/part{}", graph_.name(v), k));
        spec.name = name;
        spec.persistent = {};
        spec.temporary = {part_of(spec.temporary.count, k, parts_[v])};
        const auto& kinds = graph_.device_kinds();
        const std::optional<Duration> alone =
            kinds.empty() ? std::optional(part(v, graph_.op(v).compute, k)) : std::nullopt;
        const OpId made = copying_.insert(spec, v, {}, alone);
        for (std::size_t i = 0; i < kinds.size(); ++i) {
          const auto time = graph_.compute(v, i);
          copying_.builder().set_compute(made, kinds[i],
                                         time ? std::optional(part(v, *time, k)) : std::nullopt);
        }
        for (const OpWork& kernel : graph_.kernels(v))
          copying_.builder().add_kernel(made, part(v, kernel, k));
        made_[v].push_back(made);
        for (const TensorId t : graph_.outputs(v)) {
          const Tensor& tensor = graph_.tensor(t);
          if (!tensor.control)
            tensors_[t].push_back(copying_.builder().add_tensor(
                made, Bytes{part_of(tensor.size.count, k, parts_[v])}, tensor));
        }
      }
    }

    void add_edges(const Edge& e) {
      if (parts_[e.src] == 1 && parts_[e.dst] == 1) return;
      const bool control = graph_.tensor(e.tensor).control;
      const auto add = [&](std::size_t from, std::size_t to) {
        if (control)
          copying_.builder().add_control(made_[e.src][from], made_[e.dst][to]);
        else
          copying_.builder().add_edge(tensors_[e.tensor][from], made_[e.dst][to]);
      };
      const std::size_t from = made_[e.src].size(), to = made_[e.dst].size();
      if (from == to) {
        for (std::size_t k = 0; k < from; ++k) add(k, k);
        return;
      }
      for (std::size_t k = 0; k < from; ++k)
        for (std::size_t l = 0; l < to; ++l) add(k, l);
    }

    void add_collectives() {
      for (const Collective& c : graph_.collectives())
        for (std::int64_t k = 1; k < parts_[c.first]; ++k) {
          Collective part = c;
          part.bytes = {part_of(c.bytes.count, k, parts_[c.first])};
          std::vector<OpId> members;
          for (const OpId v : c.member_ids())
            members.push_back(made_[v][static_cast<std::size_t>(k)]);
          copying_.builder().add_collective(part, members);
        }
    }

    const OpGraph& graph_;
    Copying copying_;
    IdVector<OpId, std::int64_t> parts_;
    IdVector<OpId, std::vector<OpId>> made_;             // the parts, in the builder
    IdVector<TensorId, std::vector<TensorId>> tensors_;  // the same
  };

  std::int64_t parts_of(const OpGraph& graph, OpId v) const {
    if (parts_ > 0) return parts_;
    Bytes whole;
    if (const CollectiveId c = graph.collective_of(v); c != no_collective)
      whole = graph.collectives()[c].bytes;
    else
      for (const TensorId t : graph.outputs(v))
        if (!graph.tensor(t).control) whole = std::max(whole, graph.tensor(t).size);
    const std::int64_t parts = (whole.count + bytes_.count - 1) / bytes_.count;
    if (parts > most)
      throw InputError(fmt::format("'{}' would be split into {} parts (at most {})", graph.name(v),
                                   parts, most));
    return std::max<std::int64_t>(1, parts);
  }

  std::int64_t parts_;
  Bytes bytes_;
};

}  // namespace

std::unique_ptr<Verb> make_split(Options& o) { return std::make_unique<Split>(o); }

}  // namespace baechi::what_if
