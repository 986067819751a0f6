#include "sim/transform/grouping/fusion.h"

#include "sim/random.h"
#include "tests/prelude.h"

namespace {

/// Fusion with lists of neighbours and a search over all paths; it keeps no ranks.
class PlainFusion {
 public:
  PlainFusion(const IdVector<OpId, GroupId>& group, const std::vector<FusionEdge>& edges,
              bool disjoint)
      : group_(group), disjoint_(disjoint), out_(group.size()), in_(group.size()) {
    for (const OpId v : group.ids()) leader_.push_back(v);
    for (const auto& [u, v] : edges) {
      out_[u].push_back(v);
      in_[v].push_back(u);
    }
    std::vector<GroupId> groups;
    for (const OpId v : group.ids())
      if (group[v] != no_group && std::ranges::find(groups, group[v]) == groups.end())
        groups.push_back(group[v]);
    std::vector<FusionEdge> refused;
    for (const GroupId g : groups) {
      std::vector<FusionEdge> queue;
      for (const OpId u : group.ids())
        for (const OpId v : out_[u])
          if (group[u] == g && group[v] == g) queue.push_back({u, v});
      fuse_all(queue, refused);
    }
    while (!refused.empty()) {
      std::vector<FusionEdge> queue = std::move(refused);
      refused.clear();
      if (!fuse_all(queue, refused)) break;
    }
  }

  OpId leader(OpId v) const { return leader_[v] == v ? v : leader(leader_[v]); }

 private:
  bool fuse_all(std::vector<FusionEdge>& queue, std::vector<FusionEdge>& refused) {
    bool any = false;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const auto [a, b] = queue[i];
      if (std::ranges::find(out_[a], b) == out_[a].end()) continue;
      if (out_[a].size() > 1 && in_[b].size() > 1 && (!disjoint_ || reaches(a, b, true))) {
        refused.push_back({a, b});
        continue;
      }
      fuse(a, b, queue);
      any = true;
    }
    return any;
  }

  bool reaches(OpId from, OpId to, bool by_another) const {
    return std::ranges::any_of(
        out_[from], [&](OpId next) { return next == to ? !by_another : reaches(next, to, false); });
  }

  void fuse(OpId a, OpId b, std::vector<FusionEdge>& queue) {
    for (const OpId u : std::exchange(in_[b], {})) {
      std::erase(out_[u], b);
      if (u == a || std::ranges::find(out_[u], a) != out_[u].end()) continue;
      out_[u].push_back(a);
      in_[a].push_back(u);
      if (group_[u] == group_[a]) queue.push_back({u, a});
    }
    for (const OpId v : std::exchange(out_[b], {})) {
      std::erase(in_[v], b);
      if (std::ranges::find(out_[a], v) != out_[a].end()) continue;
      out_[a].push_back(v);
      in_[v].push_back(a);
      if (group_[v] == group_[a]) queue.push_back({a, v});
    }
    leader_[b] = a;
  }

  const IdVector<OpId, GroupId>& group_;
  bool disjoint_;
  IdVector<OpId, std::vector<OpId>> out_, in_;
  IdVector<OpId, OpId> leader_;
};

}  // namespace

TEST_SUITE_BEGIN("fuse");
TEST_CASE("with ranks or without, the same ops are fused, in thousands of random graphs") {
  std::size_t fused = 0, kept = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ops = 3 + random.below(12), groups = 1 + random.below(3);
    IdVector<OpId, GroupId> group;
    std::vector<FusionEdge> edges;
    for (std::uint32_t v = 0; v < ops; ++v) {
      group.push_back(GroupId{random.below(groups + 1)});  // 0: no_group
      for (std::uint32_t u = 0; u < v; ++u)
        if (random.below(ops) < 3) edges.push_back({OpId{u}, OpId{v}});
    }
    std::ranges::stable_sort(edges, {}, &FusionEdge::src);
    for (const bool disjoint : {false, true}) {
      CAPTURE(disjoint);
      const Fusion ours(group, edges, {.disjoint_paths = disjoint});
      const PlainFusion plain(group, edges, disjoint);
      for (const OpId v : group.ids()) {
        REQUIRE(ours.leader(v) == plain.leader(v));
        ++(ours.leader(v) == v ? kept : fused);
      }
    }
  }
  CHECK(fused > 10'000);
  CHECK(kept > 10'000);
}
