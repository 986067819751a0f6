/// Sets the engine's model of network interfaces beside SimGrid 3.32's fluid one, on small cases
/// whose transfers all begin at time 0. In SimGrid the transfers of a device, and those through the
/// NICs of a node, share bandwidth fairly; in the engine each holds its channels and a NIC alone.
/// Prints when the last transfer of each case ends, in both, and the median over random cases.
#include <fmt/format.h>

#include <simgrid/s4u.hpp>

#include "sim/engine/simulation.h"
#include "sim/random.h"

namespace baechi::bench {
namespace {

namespace s4u = simgrid::s4u;

/// A device, as node and number there.
struct Place {
  std::uint32_t node = 0, device = 0;
};
struct Flow {
  Place from, to;
  std::int64_t bytes = 0;
};
/// Equal nodes; a NIC moves a byte per nanosecond.
struct Case {
  std::string name;
  std::uint32_t nodes = 2, devices = 1, nics = 1;
  std::vector<Flow> flows{};
};

constexpr std::int64_t unit = 1'000'000;

std::vector<Case> hand_cases() {
  std::vector<Case> cases;
  cases.push_back({"one transfer", 2, 1, 1, {{{0, 0}, {1, 0}, unit}}});
  Case c{"two devices, one NIC", 2, 2, 1};
  for (const std::uint32_t d : {0U, 1U}) c.flows.push_back({{0, d}, {1, d}, unit});
  cases.push_back(c);
  c = {"the same, 1 and 3 times the bytes", 2, 2, 1};
  for (const std::uint32_t d : {0U, 1U}) c.flows.push_back({{0, d}, {1, d}, unit * (1 + 2 * d)});
  cases.push_back(c);
  c = {"both directions", 2, 2, 1};
  for (const std::uint32_t n : {0U, 1U}) c.flows.push_back({{n, 0}, {1 - n, 1}, unit});
  cases.push_back(c);
  c = {"8 devices, 4 NICs", 2, 8, 4};
  for (std::uint32_t d = 0; d < 8; ++d) c.flows.push_back({{0, d}, {1, d}, unit});
  cases.push_back(c);
  c = {"3 devices, 2 NICs", 2, 3, 2};
  for (std::uint32_t d = 0; d < 3; ++d) c.flows.push_back({{0, d}, {1, d}, unit});
  cases.push_back(c);
  c = {"3 nodes send to a fourth", 4, 3, 1};
  for (std::uint32_t n = 1; n < 4; ++n) c.flows.push_back({{n, 0}, {0, n - 1}, unit});
  cases.push_back(c);
  c = {"each of 4 nodes to each other, 1 NIC", 4, 3, 1};
  for (std::uint32_t n = 0; n < 4; ++n)
    for (std::uint32_t k = 1; k < 4; ++k)
      c.flows.push_back({{n, k - 1}, {(n + k) % 4, k - 1}, unit});
  cases.push_back(c);
  return cases;
}

Case random_case(std::uint64_t seed) {
  Random random(seed);
  Case c{"", 2 + random.below(3), 1 + random.below(4), 1 + random.below(3)};
  for (std::uint32_t i = 2 + random.below(15); i > 0; --i) {
    const std::uint32_t from = random.below(c.nodes);
    const std::uint32_t to = (from + 1 + random.below(c.nodes - 1)) % c.nodes;
    c.flows.push_back({{from, random.below(c.devices)},
                       {to, random.below(c.devices)},
                       unit / 10 * (1 + random.below(20))});
  }
  return c;
}

double engine_ns(const Case& c) {
  IdVector<DeviceId, Device> devices;
  for (std::uint32_t i = 0; i < c.nodes * c.devices; ++i)
    devices.push_back({.name = "gpu", .kind = {}, .memory = {unit}});
  const Link link{.bandwidth = {1e9}, .latency = {}};
  const Cluster cluster = Cluster::of_nodes(
      std::move(devices),
      std::vector<Node>(c.nodes,
                        {.devices = c.devices, .nics = c.nics, .network = link, .inside = link}));
  OpGraphBuilder builder;
  std::vector<std::uint32_t> places;
  for (const Flow& flow : c.flows) {
    const OpId from = builder.add_op({.name = fmt::format("{}", places.size())});
    const OpId to = builder.add_op({.name = fmt::format("{}", places.size() + 1)});
    builder.add_edge(builder.add_tensor(from, {flow.bytes}), to);
    places.push_back(flow.from.node * c.devices + flow.from.device);
    places.push_back(flow.to.node * c.devices + flow.to.device);
  }
  IdVector<OpId, OpId> id;
  const OpGraph graph = std::move(builder).build(&id);
  Placement placement;
  placement.device.assign(graph.num_ops(), DeviceId{});
  for (std::size_t v = 0; v < places.size(); ++v)
    placement.device[id[static_cast<OpId>(v)]] = DeviceId{places[v]};
  const ProfiledCosts costs(graph, cluster);
  const EngineOptions options{.transfers = Transfers::duplex, .count_memory = false};
  return static_cast<double>(
      simulate({graph, cluster, costs, options}, placement).makespan.count());
}

/// All cases side by side on one SimGrid platform, whose links no two cases share. One second of
/// SimGrid stands for one nanosecond.
class FluidCases {
 public:
  explicit FluidCases(const std::vector<Case>& cases) : ends_(cases.size()) {
    auto* zone = s4u::create_full_zone("zone");
    for (std::size_t c = 0; c < cases.size(); ++c) {
      std::map<std::string, s4u::Link*> links;
      const auto link = [&](const std::string& name, double rate) {
        const std::string whole = fmt::format("{}-{}", c, name);
        auto [it, is_new] = links.try_emplace(whole, nullptr);
        if (is_new) {
          it->second = zone->create_link(whole, rate);
          it->second->set_latency(0.0);
          it->second->seal();
        }
        return it->second;
      };
      const double nics = cases[c].nics;
      for (std::size_t f = 0; f < cases[c].flows.size(); ++f) {
        const auto& [from, to, bytes] = cases[c].flows[f];
        auto* sender = zone->create_host(fmt::format("s{}-{}", c, f), 1.0);
        auto* receiver = zone->create_host(fmt::format("r{}-{}", c, f), 1.0);
        zone->add_route(
            sender->get_netpoint(), receiver->get_netpoint(), nullptr, nullptr,
            {s4u::LinkInRoute(link(fmt::format("out{}.{}", from.node, from.device), 1.0)),
             s4u::LinkInRoute(link(fmt::format("out{}", from.node), nics)),
             s4u::LinkInRoute(link(fmt::format("in{}", to.node), nics)),
             s4u::LinkInRoute(link(fmt::format("in{}.{}", to.node, to.device), 1.0))},
            false);
        comms_.push_back({sender, receiver, bytes, c});
      }
    }
    zone->seal();
  }

  /// When the last transfer of each case ends. [cases]
  std::vector<double> run(s4u::Engine& engine) {
    std::map<const s4u::Activity*, std::size_t> case_of;
    std::vector<s4u::CommPtr> started;
    s4u::Activity::on_completion_cb([&](const s4u::Activity& activity) {
      if (const auto it = case_of.find(&activity); it != case_of.end())
        ends_[it->second] = std::max(ends_[it->second], s4u::Engine::get_clock());
    });
    for (const auto& [sender, receiver, bytes, number] : comms_) {
      started.push_back(s4u::Comm::sendto_init(sender, receiver));
      started.back()->set_payload_size(static_cast<std::uint64_t>(bytes));
      case_of[started.back().get()] = number;
      started.back()->vetoable_start();
    }
    engine.run();
    return ends_;
  }

 private:
  struct Comm {
    s4u::Host* sender;
    s4u::Host* receiver;
    std::int64_t bytes;
    std::size_t number;
  };
  std::vector<double> ends_;
  std::vector<Comm> comms_;
};

}  // namespace
}  // namespace baechi::bench

int main() {
  using namespace baechi::bench;
  std::vector<std::string> words{"simgrid_nodes", "--cfg=network/model:CM02",
                                 "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0",
                                 "--log=root.thres:warning"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  s4u::Engine engine(&count, arguments.data());

  constexpr std::size_t random_cases = 200;
  std::vector<Case> cases = hand_cases();
  const std::size_t by_hand = cases.size();
  for (std::size_t seed = 0; seed < random_cases; ++seed) cases.push_back(random_case(seed));
  const std::vector<double> fluid = FluidCases(cases).run(engine);
  std::vector<double> ratios;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const double ours = engine_ns(cases[c]);
    if (c < by_hand)
      fmt::print("{:<40} engine {:6.3f}  SimGrid {:6.3f}\n", cases[c].name, ours / unit,
                 fluid[c] / unit);
    else
      ratios.push_back(ours / fluid[c]);
  }
  std::ranges::sort(ratios);
  fmt::print(
      "{} random cases, engine over SimGrid: least {:.3f}, median {:.3f}, 90 % {:.3f}, most "
      "{:.3f}\n",
      ratios.size(), ratios.front(), ratios[ratios.size() / 2], ratios[ratios.size() * 9 / 10],
      ratios.back());
  std::fflush(stdout);
  std::_Exit(0);
}
