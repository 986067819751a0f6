#include "placers/original/topo.h"

#include <fmt/format.h>

#include <algorithm>

namespace baechi::original {
namespace {

class Topo {
 public:
  Topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits, const PlacerOptions& options)
      : graph_(graph), limits_(limits), options_(options), groups_(groups_of(graph)) {
    result_.device.assign(graph.num_ops(), no_device);
    result_.used.assign(limits.size(), {});
    if (options.uniform) result_.cap = even_share();
  }

  PlacerResult run() {
    std::vector<OpId> order;
    for (const OpId v : graph_.ops()) order.push_back(v);
    std::ranges::sort(order, {}, [this](OpId v) { return graph_.op(v).topo; });
    auto next = order.begin();
    // Q10: next-fit, a device that was left is never filled further.
    for (const DeviceId d : limits_.ids()) {
      for (; next != order.end(); ++next) {
        if (options_.colocation && result_.device[*next] != no_device) continue;
        if (!fits(*next, d)) break;
        put(*next, d);
      }
    }
    if (next != order.end())
      result_.failure = {
          .type = "RuntimeError",
          .where = "_place_ops",
          .file = "m_topo.py",
          .message = fmt::format("{} operators cannot be placed on devices.", order.end() - next)};
    return std::move(result_);
  }

 private:
  static Bytes memory(const Graph::Op& op) { return op.temporary + op.outputs; }

  Bytes even_share() const {
    Bytes total;
    Bytes largest;
    for (const OpId v : graph_.ops()) {
      total += memory(graph_.op(v));
      largest = std::max(largest, memory(graph_.op(v)));
    }
    return Bytes{total.count / static_cast<std::int64_t>(limits_.size())} + largest;
  }

  /// Q10: with groups, the tested memory is not the charged memory, and the test is `<` instead of
  /// `<=`; against an even share that ignores the device's limit. Q25: where persistent bytes are
  /// not part of the outputs, the share omits them, and a group may fit on no device at any limit.
  bool fits(OpId v, DeviceId d) const {
    const Bytes used = result_.used[d];
    if (options_.colocation) {
      const Group& group = groups_[graph_.op(v).group];
      const Bytes need = group.temporary_max + group.persistent_sum;
      return result_.cap ? used + need < *result_.cap : need <= limits_[d] - used;
    }
    const Bytes need = memory(graph_.op(v));
    return result_.cap ? used + need <= *result_.cap : need <= limits_[d] - used;
  }

  void put(OpId v, DeviceId d) {
    const auto charge = [this, d](OpId member) {
      result_.device[member] = d;
      result_.used[d] += memory(graph_.op(member));
    };
    if (options_.colocation) {
      std::ranges::for_each(groups_[graph_.op(v).group].members, charge);
    } else {
      charge(v);
    }
  }

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const PlacerOptions& options_;
  IdVector<GroupId, Group> groups_;
  PlacerResult result_;
};

}  // namespace

PlacerResult topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                  const PlacerOptions& options) {
  return Topo(graph, limits, options).run();
}

}  // namespace baechi::original
