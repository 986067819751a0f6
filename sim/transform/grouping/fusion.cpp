#include "sim/transform/grouping/fusion.h"

namespace baechi {

GroupSets::GroupSets(const OpGraph& graph) : graph_(graph) {
  parent_.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const GroupId g = graph.op(v).group;
    parent_.push_back(g == no_group ? v : graph.members(g).front());
  }
}

OpId GroupSets::root(OpId v) {
  while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
  return v;
}

void GroupSets::join(OpId a, OpId b) {
  const auto [low, high] = std::minmax({root(a), root(b)});
  parent_[high] = low;
}

OpGraph GroupSets::regrouped() {
  IdVector<OpId, GroupId> group(graph_.num_ops(), no_group);
  std::vector<std::string> names;
  IdVector<OpId, bool> joined(graph_.num_ops(), false);
  for (const OpId v : graph_.ops()) joined[root(v)] = joined[root(v)] || root(v) != v;
  for (const OpId v : graph_.ops()) {
    const OpId r = root(v);
    const GroupId own = graph_.op(v).group;
    if (!joined[r] && own == no_group) continue;
    const std::string_view label = own == no_group ? graph_.name(v) : graph_.group_name(own);
    if (r == v) {  // the root is the lowest op of its set, so it comes first
      names.emplace_back(label);
      group[v] = static_cast<GroupId>(names.size());
      continue;
    }
    group[v] = group[r];
    std::string& name = names[index(group[r]) - 1];
    if (std::pair(label.size(), label) < std::pair(name.size(), std::string_view(name)))
      name = label;
  }
  return graph_.with_groups(group, names);
}

Fusion::Fusion(const IdVector<OpId, GroupId>& group, std::span<const FusionEdge> edges,
               const FusionRules& rules, Outputs* outputs)
    : rules_(rules), outputs_(outputs), next_given_(edges.size(), none), seen_(group.size(), 0) {
  nodes_.reserve(group.size());
  std::size_t num_groups = 0;
  for (const OpId v : group.ids()) {
    nodes_.push_back({.leader = v, .group = group[v]});
    num_groups = std::max(num_groups, index(group[v]));
  }
  links_.reserve(edges.size());
  for (std::uint32_t i = 0; i < edges.size(); ++i) add_link(edges[i].src, edges[i].dst, i);
  if (rules_.disjoint_paths && !rules_.allow_cycle) rank_all();

  if (outputs_ != nullptr) outputs_->assign(group.size(), {});
  std::vector<std::vector<OpId>> members(num_groups + 1);
  std::vector<GroupId> groups;  // in the order of their first members
  for (const OpId v : group.ids()) {
    if (group[v] == no_group) continue;
    if (members[index(group[v])].empty()) groups.push_back(group[v]);
    members[index(group[v])].push_back(v);
  }
  std::vector<FusionEdge> refused;
  for (const GroupId g : groups) {
    std::vector<FusionEdge> queue;
    for (const OpId a : members[index(g)]) {
      for (LinkId l = nodes_[a].out.first; l != none; l = links_[l].in_out.next)
        if (nodes_[links_[l].dst].group == g) queue.push_back({a, links_[l].dst});
    }
    fuse_all(queue, refused);
  }
  while (rules_.requeue && !refused.empty()) {
    std::vector<FusionEdge> queue = std::move(refused);
    refused.clear();
    if (!fuse_all(queue, refused)) break;
  }
  for (const OpId v : nodes_.ids()) {
    if (nodes_[v].leader != v) continue;
    for (OpId s = nodes_[v].first_swallowed; s != no_op; s = nodes_[s].next_swallowed)
      nodes_[s].leader = v;
  }
}

std::vector<OpId> Fusion::swallowed(OpId leader) const {
  std::vector<OpId> result;
  for (OpId s = nodes_[leader].first_swallowed; s != no_op; s = nodes_[s].next_swallowed)
    result.push_back(s);
  return result;
}

std::vector<Fusion::Link> Fusion::out_links(OpId leader) const {
  std::vector<Link> result;
  for (LinkId l = nodes_[leader].out.first; l != none; l = links_[l].in_out.next) {
    result.push_back({.dst = links_[l].dst, .edges = {}});
    for (std::uint32_t e = links_[l].first_given; e != none; e = next_given_[e])
      result.back().edges.push_back(e);
  }
  return result;
}

/// Appends the list from `first` to `last` to the ops that were fused into `into`.
void Fusion::swallow(OpId first, OpId last, Node& into) {
  (into.last_swallowed == no_op ? into.first_swallowed
                                : nodes_[into.last_swallowed].next_swallowed) = first;
  into.last_swallowed = last;
}

void Fusion::append(Chain& chain, LinkId link, Neighbours GraphLink::* side) {
  links_[link].*side = {.next = none, .previous = chain.last};
  (chain.last == none ? chain.first : (links_[chain.last].*side).next) = link;
  chain.last = link;
  ++chain.size;
}

void Fusion::remove(Chain& chain, LinkId link, Neighbours GraphLink::* side) {
  const auto [next, previous] = links_[link].*side;
  (previous == none ? chain.first : (links_[previous].*side).next) = next;
  (next == none ? chain.last : (links_[next].*side).previous) = previous;
  --chain.size;
}

void Fusion::add_link(OpId src, OpId dst, std::uint32_t given) {
  links_.push_back({.src = src, .dst = dst, .first_given = given, .last_given = given});
  const auto l = static_cast<LinkId>(links_.size() - 1);
  append(nodes_[src].out, l, &GraphLink::in_out);
  append(nodes_[dst].in, l, &GraphLink::in_in);
}

Fusion::LinkId Fusion::find_link(OpId src, OpId dst) const {
  const Chain& out = nodes_[src].out;
  const Chain& in = nodes_[dst].in;
  if (out.size <= in.size) {
    LinkId l = out.first;
    while (l != none && links_[l].dst != dst) l = links_[l].in_out.next;
    return l;
  }
  LinkId l = in.first;
  while (l != none && links_[l].src != src) l = links_[l].in_in.next;
  return l;
}

/// Appends the tensors of `from` to those of `onto`.
void Fusion::join(LinkId onto, LinkId from) {
  next_given_[links_[onto].last_given] = links_[from].first_given;
  links_[onto].last_given = links_[from].last_given;
}

/// Fuses the pairs of the queue; pairs that might close a cycle are added to `refused`. Returns
/// whether any was fused.
bool Fusion::fuse_all(std::vector<FusionEdge>& queue, std::vector<FusionEdge>& refused) {
  bool any = false;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto [a, b] = queue[i];
    if (find_link(a, b) == none) continue;
    if (may_fuse(a, b)) {
      fuse(a, b, queue);
      any = true;
    } else {
      refused.push_back({a, b});
    }
  }
  return any;
}

bool Fusion::may_fuse(OpId a, OpId b) {
  if (rules_.allow_cycle) return true;
  if (nodes_[a].out.size <= 1 || nodes_[b].in.size <= 1) return true;
  return rules_.disjoint_paths && !other_path(a, b);
}

/// Fuses b into a. New edges of `a` to ops of its group join the queue.
void Fusion::fuse(OpId a, OpId b, std::vector<FusionEdge>& queue) {
  if (rules_.disjoint_paths && !rules_.allow_cycle) move_together(a, b);
  Node& into = nodes_[a];
  Node& gone = nodes_[b];
  for (LinkId next = none, l = gone.in.first; l != none; l = next) {
    next = links_[l].in_in.next;
    const OpId u = links_[l].src;
    const LinkId known = u == a ? none : find_link(u, a);
    remove(nodes_[u].out, l, &GraphLink::in_out);
    if (u == a) continue;
    if (known != none) {
      join(known, l);
    } else {
      links_[l].dst = a;
      append(nodes_[u].out, l, &GraphLink::in_out);
      append(into.in, l, &GraphLink::in_in);
      if (nodes_[u].group == into.group) queue.push_back({u, a});
    }
  }
  for (LinkId next = none, l = gone.out.first; l != none; l = next) {
    next = links_[l].in_out.next;
    const OpId v = links_[l].dst;
    const LinkId known = v == a ? none : find_link(a, v);
    remove(nodes_[v].in, l, &GraphLink::in_in);
    if (v == a) continue;
    if (known != none) {
      join(known, l);
    } else {
      links_[l].src = a;
      append(into.out, l, &GraphLink::in_out);
      append(nodes_[v].in, l, &GraphLink::in_in);
      if (nodes_[v].group == into.group) queue.push_back({a, v});
    }
  }
  if (gone.first_swallowed != no_op) swallow(gone.first_swallowed, gone.last_swallowed, into);
  swallow(b, b, into);
  gone.leader = a;
  gone.in = gone.out = {};
  gone.first_swallowed = gone.last_swallowed = no_op;
  if (outputs_ == nullptr) return;
  (*outputs_)[a].clear();
  for (const Link& link : out_links(a))
    (*outputs_)[a].insert((*outputs_)[a].end(), link.edges.begin(), link.edges.end());
}

// --- Paths ---------------------------------------------------------------------------------------
// Ranks stay topological while ops are fused. A search between two ops visits only ops whose rank
// lies between theirs (Pearce and Kelly, JEA 2006).

void Fusion::rank_all() {
  IdVector<OpId, std::uint32_t> unmet;
  std::vector<OpId> order;
  for (const OpId v : nodes_.ids()) {
    unmet.push_back(nodes_[v].in.size);
    if (unmet[v] == 0) order.push_back(v);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    nodes_[order[i]].rank = static_cast<std::uint32_t>(i);
    for (LinkId l = nodes_[order[i]].out.first; l != none; l = links_[l].in_out.next)
      if (--unmet[links_[l].dst] == 0) order.push_back(links_[l].dst);
  }
}

/// Whether there is a path from `a` to `b` through another op. Searches ops nearest to `b` first.
bool Fusion::other_path(OpId a, OpId b) {
  ++search_;
  std::vector<OpId> open{a};
  while (!open.empty()) {
    const OpId v = open.back();
    open.pop_back();
    const auto begin = static_cast<std::ptrdiff_t>(open.size());
    for (LinkId l = nodes_[v].out.first; l != none; l = links_[l].in_out.next) {
      const OpId w = links_[l].dst;
      if (w == b && v != a) return true;
      if (nodes_[w].rank >= nodes_[b].rank || seen_[index(w)] == search_) continue;
      seen_[index(w)] = search_;
      open.push_back(w);
    }
    std::ranges::sort(open.begin() + begin, open.end(), {},
                      [this](OpId w) { return nodes_[w].rank; });
  }
  return false;
}

/// The ops with ranks between `from` and `to` that `from` reaches (`forward`), or that reach it
/// (else), ordered by rank.
std::vector<OpId> Fusion::between(OpId from, OpId to, bool forward) {
  ++search_;
  std::vector<OpId> found{from};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Node& node = nodes_[found[i]];
    for (LinkId l = forward ? node.out.first : node.in.first; l != none;
         l = forward ? links_[l].in_out.next : links_[l].in_in.next) {
      const OpId w = forward ? links_[l].dst : links_[l].src;
      const bool beyond =
          forward ? nodes_[w].rank >= nodes_[to].rank : nodes_[w].rank <= nodes_[to].rank;
      if (beyond || seen_[index(w)] == search_) continue;
      seen_[index(w)] = search_;
      found.push_back(w);
    }
  }
  found.erase(found.begin());
  std::ranges::sort(found, {}, [this](OpId w) { return nodes_[w].rank; });
  return found;
}

/// Gives `a` a rank that is topological after the fusion of `b` into `a`.
void Fusion::move_together(OpId a, OpId b) {
  if (nodes_[b].in.size <= 1) return;
  if (nodes_[a].out.size <= 1) {
    nodes_[a].rank = nodes_[b].rank;
    return;
  }
  const std::vector<OpId> before = between(b, a, false);
  const std::vector<OpId> behind = between(a, b, true);
  std::vector<std::uint32_t> ranks{nodes_[a].rank, nodes_[b].rank};
  for (const auto* ops : {&before, &behind})
    for (const OpId v : *ops) ranks.push_back(nodes_[v].rank);
  std::ranges::sort(ranks);
  auto lowest = ranks.begin();
  for (const OpId v : before) nodes_[v].rank = *lowest++;
  nodes_[a].rank = *lowest;
  auto highest = ranks.end() - static_cast<std::ptrdiff_t>(behind.size());
  for (const OpId v : behind) nodes_[v].rank = *highest++;
}

}  // namespace baechi
