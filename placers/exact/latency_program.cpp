#include "placers/exact/placement_program.h"

namespace baechi::exact {
namespace {

class LatencyWriter : ProgramWriter<LatencyProgram> {
 public:
  LatencyWriter(const Problem& problem, const Bundles& bundles,
                const std::vector<DeviceClass>& classes, PartRules rules, Duration below,
                Duration step)
      : ProgramWriter(bundles, classes, below, step),
        problem_(problem),
        graph_(problem.graph),
        rules_(rules),
        parts_(rules.parts),
        transfer_(mean_transfer(problem)),
        members_(bundles.size()),
        in_(graph_.num_tensors()),
        out_(graph_.num_tensors()) {
    for (const OpId v : graph_.ops()) members_[bundles_.of(v)].push_back(v);
  }

  LatencyProgram write() {
    number_slots();
    if (rules_.strict) {
      extra_ = 1e-2;
      program_.extra = extra_ * static_cast<double>(program_.slots.size());
    }
    last_ = lp().add_column(0.0, horizon());
    assign();
    for (std::size_t s = 0; s < classes_.size(); ++s) {
      if (classes_[s].core) continue;
      for (const DeviceId d : classes_[s].devices)
        limit_weights(s, d, [&](BundleId b) { return bundles_.weights(b) <= classes_[s].memory; });
      order_equal(s);
    }
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      path_.push_back(lp().add_column(0.0, horizon()));
      done_.push_back(lp().add_column(0.0, horizon()));
    }
    for (std::size_t s = 0; s < program_.slots.size(); ++s)
      if (!program_.slots[s].core) run_part(s);
    if (rules_.cut == Cut::as_objective)
      for (std::size_t s = 1; s < program_.slots.size(); ++s)
        if (program_.slots[s].part > 0) come_back(s);
    run_ops();
    minimise(last_);
    return std::move(program_);
  }

 private:
  /// An upper bound on all times.
  double horizon() const { return scaled(most_) + program_.extra; }
  std::uint32_t x(OpId v, std::size_t slot) const { return program_.x[v][slot]; }
  Duration time(OpId v, std::size_t slot) const {
    return problem_.costs.compute(v, program_.slots[slot].device);
  }

  void number_slots() {
    for (std::size_t s = 0; s < classes_.size(); ++s) {
      for (const DeviceId d : classes_[s].devices) {
        const std::size_t parts = classes_[s].core ? 1 : parts_;
        for (std::uint32_t i = 0; i < parts; ++i)
          program_.slots.push_back({.device = d, .part = i, .cls = s, .core = classes_[s].core});
        if (classes_[s].core) break;
      }
    }
  }

  bool fits(BundleId b, const Slot& slot) const {
    const auto time = bundles_.time(b, slot.cls);
    return time && (slot.core || *time <= most_) &&
           bundles_.weights(b) <= classes_[slot.cls].memory;
  }

  /// The ops of a bundle share their columns; with several parts they have columns with equal sums.
  void assign() {
    program_.x = IdVector<OpId, std::vector<std::uint32_t>>(graph_.num_ops());
    program_.on.assign(bundles_.size(),
                       std::vector<std::vector<std::uint32_t>>(problem_.cluster.num_devices()));
    for (const BundleId b : bundles_.bundles()) {
      const OpId first = members_[b].front();
      for (const Slot& slot : program_.slots) {
        const double most = fits(b, slot) ? 1.0 : 0.0;
        std::uint32_t column = 0;
        for (const OpId v : members_[b]) {
          if (v == first || (parts_ > 1 && !slot.core)) column = add_whole(most);
          program_.x[v].push_back(column);
          if (v == first) program_.on[b][index(slot.device)].push_back(column);
        }
      }
      for (const OpId v : members_[b]) {
        if (v != first && parts_ == 1) break;
        Row row;
        for (std::size_t s = 0; s < program_.slots.size(); ++s) row.push_back({x(v, s), 1.0});
        lp().add_row(1.0, row, 1.0);
        if (v == first) continue;
        for (const DeviceClass& cls : classes_)
          if (!cls.core)
            for (const DeviceId d : cls.devices) {
              row = on(v, d, 1.0);
              for (const Term& term : on(first, d, -1.0)) row.push_back(term);
              lp().add_row(0.0, row, 0.0);
            }
      }
    }
  }
  /// Terms whose sum is `factor` if `v` is on accelerator `d`, else 0.
  Row on(OpId v, DeviceId d, double factor) const {
    Row row;
    for (std::size_t s = 0; s < program_.slots.size(); ++s)
      if (program_.slots[s].device == d) row.push_back({x(v, s), factor});
    return row;
  }

  /// Start, end and duration of part `s`, and what its ops wait for.
  void run_part(std::size_t s) {
    const std::uint32_t start = lp().add_column(0.0, horizon());
    const std::uint32_t end = lp().add_column(0.0, horizon());
    if (program_.slots[s].part > 0) at_most({{end_before_, 1.0}, {start, -1.0}}, 0.0);
    end_before_ = end;
    Row row{{start, 1.0}, {end, -1.0}}, work;
    for (const OpId v : graph_.ops())
      if (time(v, s) != cannot_run && time(v, s) > Duration{} &&
          fits(bundles_.of(v), program_.slots[s]))
        row.push_back({x(v, s), scaled(time(v, s))});
    add_transfers(s, row);
    at_most(row, -extra_);
    for (const OpId v : graph_.ops())  // an op is done when its part is
      at_most({{end, 1.0}, {done_[v], -1.0}, {x(v, s), horizon()}}, horizon());
    for (const EdgeId e : graph_.edges()) {
      const auto [u, v, tensor] = graph_.edge(e);
      if (x(u, s) == x(v, s)) continue;
      at_most({{done_[u], 1.0}, {start, -1.0}, {x(v, s), horizon()}, {x(u, s), -horizon()}},
              horizon());
    }
    forbid_return(s);
  }

  void add_transfers(std::size_t s, Row& row) {
    for (const TensorId t : graph_.tensors()) {
      if (transfer_[t] == Duration{}) continue;
      const std::uint32_t here = x(graph_.tensor(t).producer, s);
      std::optional<std::uint32_t> in, out;
      for (const EdgeId e : graph_.readers(t)) {
        const std::uint32_t there = x(graph_.edge(e).dst, s);
        if (there == here) continue;
        if (!in) {
          in = lp().add_column(0.0, 1.0);
          out = lp().add_column(0.0, 1.0);
          row.push_back({*in, scaled(transfer_[t])});
          row.push_back({*out, scaled(transfer_[t])});
          in_[t].push_back(*in);
          out_[t].push_back(*out);
        }
        at_most({{there, 1.0}, {here, -1.0}, {*in, -1.0}}, 0.0);
        at_most({{here, 1.0}, {there, -1.0}, {*out, -1.0}}, 0.0);
      }
    }
  }

  void forbid_return(std::size_t s) {
    IdVector<OpId, std::uint32_t> z(graph_.num_ops());
    for (const OpId v : graph_.ops()) {
      z[v] = lp().add_column(0.0, 1.0);
      at_most({{x(v, s), 1.0}, {z[v], -1.0}}, 0.0);
      for (const OpId u : graph_.predecessors(v)) {
        at_most({{z[v], 1.0}, {z[u], -1.0}}, 0.0);
        if (x(u, s) != x(v, s)) at_most({{z[v], 1.0}, {x(v, s), -1.0}, {x(u, s), 1.0}}, 1.0);
      }
    }
  }

  /// Each op of part `s` reads from its own part or from an op on a path that left the part before.
  void come_back(std::size_t s) {
    IdVector<OpId, std::uint32_t> back(graph_.num_ops());
    for (const OpId v : graph_.ops()) {
      back[v] = lp().add_column(0.0, 1.0);
      Row elsewhere = on(v, program_.slots[s].device, 1.0);
      elsewhere.push_back({back[v], 1.0});
      at_most(elsewhere, 1.0);
      Row left{{back[v], 1.0}}, here{{x(v, s), 1.0}};
      const auto sources =
          graph_.predecessors(v);  // sorted; one twice if v reads two tensors of it
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const OpId u = sources[i];
        if (i > 0 && u == sources[i - 1]) continue;
        left.push_back({x(u, s - 1), -1.0});
        left.push_back({back[u], -1.0});
        here.push_back({x(u, s), -1.0});
        here.push_back({back[u], -1.0});
      }
      at_most(left, 0.0);
      at_most(here, 0.0);
    }
  }

  void run_ops() {
    for (const OpId v : graph_.ops()) {
      at_most({{done_[v], 1.0}, {last_, -1.0}}, 0.0);
      at_most({{path_[v], 1.0}, {done_[v], -1.0}}, 0.0);
      Row on_path{{path_[v], -1.0}}, on_cores{{done_[v], -1.0}};
      for (std::size_t s = 0; s < program_.slots.size(); ++s) {
        const Slot& slot = program_.slots[s];
        if (!fits(bundles_.of(v), slot) || time(v, s) == Duration{}) continue;
        on_path.push_back({x(v, s), scaled(time(v, s))});
        if (slot.core) on_cores.push_back({x(v, s), scaled(time(v, s))});
      }
      at_most(on_path, 0.0);
      for (const EdgeId e : graph_.in_edges(v)) {
        const auto [u, reader, tensor] = graph_.edge(e);
        Row row = on_cores;
        row.push_back({done_[u], 1.0});
        at_most(row, 0.0);
        row = on_path;
        row.push_back({path_[u], 1.0});
        const double transfer = scaled(transfer_[tensor]);
        for (const std::uint32_t out : out_[tensor]) row.push_back({out, transfer});
        if (graph_.readers(tensor).size() == 1)
          for (const std::uint32_t in : in_[tensor]) row.push_back({in, transfer});
        at_most(row, 0.0);
      }
    }
  }

  const Problem& problem_;
  const OpGraph& graph_;
  PartRules rules_;
  std::size_t parts_;
  IdVector<TensorId, Duration> transfer_;
  IdVector<BundleId, std::vector<OpId>> members_;
  double extra_ = 0.0;                         // added to each part
  std::uint32_t last_ = 0;                     // the objective's column
  std::uint32_t end_before_ = 0;               // column: end of the accelerator's previous part
  IdVector<OpId, std::uint32_t> path_, done_;  // columns: its end without queues; its end
  IdVector<TensorId, std::vector<std::uint32_t>> in_, out_;  // of all parts
};

}  // namespace

Invocations LatencyProgram::invocations(const std::vector<double>& solution) const {
  Invocations result;
  for (const auto& columns : x) {
    const auto best = std::ranges::max_element(
        columns, {}, [&](std::uint32_t column) { return solution[column]; });
    const Slot& slot = slots[static_cast<std::size_t>(best - columns.begin())];
    result.placement.device.push_back(slot.device);
    result.part.push_back(slot.part);
  }
  return result;
}

LatencyProgram latency_program(const Problem& problem, const Bundles& bundles,
                               const std::vector<DeviceClass>& classes, PartRules rules,
                               Duration below, Duration step) {
  return LatencyWriter(problem, bundles, classes, rules, below, step).write();
}

}  // namespace baechi::exact
