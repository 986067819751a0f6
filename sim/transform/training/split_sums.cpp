#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

/// Splits an AddN by the devices of its terms: every device with two or more terms, except the
/// AddN's own, adds them up and sends the sum. Time and work of each part are in proportion to its
/// bytes read and written. Source: `_MultiDeviceAddN` of TensorFlow 1 (gradients_impl.py), which
/// builds gradients for placed ops, as Baechi does after placing the forward ops.
class SplitSums final : public Transform {
 public:
  Transformed apply(const OpGraph& graph) const override { return same_ops(graph); }

  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    return Splitting(graph, device).run();
  }

 private:
  class Splitting {
   public:
    Splitting(const OpGraph& graph, const IdVector<OpId, DeviceId>& device)
        : graph_(graph), device_(device), made_(graph.num_ops()) {}

    PlacedStep run() && {
      for (const OpId v : graph_.ops()) {
        if (graph_.kind(v) == "AddN") add_parts(v);
        made_[v] = add(v, graph_.name(v), remaining_fraction(v));
        new_device_.push_back(device_[v]);
      }
      for (const OpId v : graph_.ops()) {
        add_outputs(v);
        if (graph_.op(v).forward != no_op)
          builder_.set_forward(made_[v], made_[graph_.op(v).forward]);
        if (const auto [first, number] = graph_.micro_batch(v); first != v)
          builder_.set_micro_batch(made_[v], {made_[first], number});
        if (graph_.op(v).group != no_group)
          builder_.colocate(made_[v], graph_.group_name(graph_.op(v).group));
      }
      for (const auto& [whole, part] : parts_) builder_.add_edge(part.sum, made_[whole.first]);
      for (const Collective& c : graph_.collectives()) {
        std::vector<OpId> members;
        for (const OpId v : c.member_ids()) members.push_back(made_[v]);
        builder_.add_collective(c, members);
      }
      IdVector<OpId, OpId> renumbered;
      OpGraph graph = std::move(builder_).build(&renumbered);
      if (graph_.free_controls()) graph = graph.with_free_controls();
      return placed_step(std::move(graph), renumbered, new_device_);
    }

   private:
    struct Part {
      OpId op{};
      TensorId sum{};
      std::size_t terms = 0;
    };

    void add_parts(OpId v) {
      std::map<DeviceId, std::size_t> terms;
      Bytes size;
      for (const EdgeId e : graph_.in_edges(v)) {
        const Edge& edge = graph_.edge(e);
        if (graph_.tensor(edge.tensor).control || device_[edge.src] == device_[v]) continue;
        ++terms[device_[edge.src]];
        size = graph_.tensor(edge.tensor).size;
      }
      for (const auto& [device, count] : terms) {
        if (count < 2) continue;
        Part& part = parts_[{v, device}];
        part.terms = count;
        part.op =
            add(v, fmt::format("{}/on_{}", graph_.name(v), index(device)), fraction(v, count));
        new_device_.push_back(device);
        part.sum = builder_.add_tensor(part.op, size);
      }
    }

    std::size_t terms_of(OpId v) const {
      return static_cast<std::size_t>(std::ranges::count_if(graph_.in_edges(v), [&](EdgeId e) {
        return !graph_.tensor(graph_.edge(e).tensor).control;
      }));
    }
    /// The bytes of a sum of `terms`, relative to those of `v`.
    double fraction(OpId v, std::size_t terms) const {
      return static_cast<double>(terms + 1) / static_cast<double>(terms_of(v) + 1);
    }
    double remaining_fraction(OpId v) const {
      std::size_t terms = terms_of(v);
      for (auto it = parts_.lower_bound({v, DeviceId{0}});
           it != parts_.end() && it->first.first == v; ++it)
        terms -= it->second.terms - 1;
      return fraction(v, terms);
    }

    OpId add(OpId v, std::string_view name, double fraction) {
      const auto scaled = [&](std::int64_t n) {
        return fraction == 1.0 ? n : static_cast<std::int64_t>(fraction * static_cast<double>(n));
      };
      OpSpec spec = spec_of(graph_, v);
      if (name != spec.name) spec.persistent = {};
      spec.name = name;
      spec.compute = Duration{scaled(spec.compute.count())};
      const OpId made = builder_.add_op(spec);
      const auto& kinds = graph_.device_kinds();
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        const auto time = graph_.compute(v, k);
        builder_.set_compute(made, kinds[k],
                             time ? std::optional(Duration{scaled(time->count())}) : std::nullopt);
      }
      for (OpWork kernel : graph_.kernels(v)) {
        kernel.flops = scaled(kernel.flops);
        kernel.traffic = {scaled(kernel.traffic.count)};
        kernel.weights = {scaled(kernel.weights.count)};
        builder_.add_kernel(made, kernel);
      }
      return made;
    }

    void add_outputs(OpId v) {
      for (const TensorId t : graph_.outputs(v)) {
        const Tensor& tensor = graph_.tensor(t);
        if (tensor.control) {
          for (const EdgeId e : graph_.readers(t))
            builder_.add_control(made_[v], made_[graph_.edge(e).dst]);
          continue;
        }
        const TensorId made = builder_.add_tensor(made_[v], tensor.size, tensor);
        if (const auto time = graph_.measured_transfer(t)) builder_.set_transfer(made, *time);
        for (const EdgeId e : graph_.readers(t)) {
          const OpId reader = graph_.edge(e).dst;
          const auto part = parts_.find({reader, device_[v]});
          builder_.add_edge(made, part == parts_.end() ? made_[reader] : part->second.op);
        }
      }
    }

    const OpGraph& graph_;
    const IdVector<OpId, DeviceId>& device_;
    OpGraphBuilder builder_;
    IdVector<OpId, OpId> made_;            // [num_ops], ids in the builder
    IdVector<OpId, DeviceId> new_device_;  // [ops in the builder]
    std::map<std::pair<OpId, DeviceId>, Part> parts_;
  };
};

}  // namespace

std::unique_ptr<Transform> make_split_sums(Options& /*o*/) { return std::make_unique<SplitSums>(); }

}  // namespace baechi
