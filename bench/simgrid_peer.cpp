/// Simulates the benchmarks' graph and placement with SimGrid 3.32, another discrete-event
/// simulator, in the fastest way we know:
/// - an Exec or Comm is created when it can start and dropped when it is done;
/// - there are no actors and no SimGrid dependencies;
/// - a host runs one op at a time, in the order in which ops become ready;
/// - links never contend.
/// This project's engine with parallel transfers computes the same makespan. Prints the CPU time
/// per op of both; exits with 1 if the makespans differ by more than 1e-6.

#include <ctime>
#include <queue>
#include <simgrid/s4u.hpp>

#include "bench/layered_graph.h"
#include "sim/engine/simulation.h"

namespace baechi::bench {
namespace {

namespace s4u = simgrid::s4u;

double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

constexpr double bytes_per_ns = 12.0;  // bandwidth of the links of bench::cluster()
constexpr double latency_ns = 5000.0;

/// The placed graph in SimGrid. One second of SimGrid stands for one nanosecond.
class Peer {
 public:
  Peer(const Problem& problem, const Placement& placement)
      : graph_(problem.graph),
        costs_(problem.costs),
        device_(placement.device),
        ready_(problem.cluster.num_devices()),
        busy_(problem.cluster.num_devices(), 0),
        unmet_(graph_.num_ops()) {
    auto* zone = s4u::create_full_zone("zone");
    std::vector<s4u::Link*> links;
    for (const DeviceId d : problem.cluster.devices()) {
      hosts_.push_back(zone->create_host(fmt::format("d{}", index(d)), 1.0));
      links.push_back(zone->create_link(fmt::format("l{}", index(d)), bytes_per_ns));
      links.back()->set_latency(latency_ns / 2);
      links.back()->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
      links.back()->seal();
    }
    for (std::size_t a = 0; a < links.size(); ++a) {
      for (std::size_t b = 0; b < links.size(); ++b) {
        if (a == b) continue;
        zone->add_route(hosts_[a]->get_netpoint(), hosts_[b]->get_netpoint(), nullptr, nullptr,
                        {s4u::LinkInRoute(links[a]), s4u::LinkInRoute(links[b])}, false);
      }
    }
    zone->seal();
    s4u::Activity::on_completion_cb([this](const s4u::Activity& a) { completed(a); });
  }

  double run(s4u::Engine& engine) {
    for (const OpId v : graph_.ops()) {
      unmet_[v] = static_cast<std::uint32_t>(graph_.in_edges(v).size());
      if (unmet_[v] == 0) sources_.push_back(v);
    }
    for (const OpId v : sources_) make_ready(v);
    engine.run();
    return last_;
  }

 private:
  /// A running activity: an op (`op`), or a transfer of `tensor` to the device `to`.
  struct Live {
    s4u::ActivityPtr activity;
    OpId op{};
    TensorId tensor{};
    DeviceId to{};
    bool transfer = false;
  };
  using Ready = std::pair<double, OpId>;

  void make_ready(OpId v) {
    ready_[index(device_[v])].emplace(s4u::Engine::get_clock(), v);
    start_next(device_[v]);
  }

  void start_next(DeviceId d) {
    auto& ready = ready_[index(d)];
    if (busy_[index(d)] || ready.empty()) return;
    const OpId v = ready.top().second;
    ready.pop();
    busy_[index(d)] = 1;
    const s4u::ExecPtr exec = s4u::Exec::init();
    exec->set_flops_amount(static_cast<double>(costs_.compute(v, d).count()));
    exec->set_host(hosts_[index(d)]);
    live_.emplace(exec.get(), Live{exec, v, {}, {}, false});
    exec->vetoable_start();
  }

  void send(TensorId t, DeviceId src, DeviceId dst) {
    const s4u::CommPtr comm = s4u::Comm::sendto_init(hosts_[index(src)], hosts_[index(dst)]);
    const double ns = static_cast<double>(costs_.transfer(t, src, dst).count()) - latency_ns;
    comm->set_payload_size(static_cast<std::uint64_t>(ns * bytes_per_ns));
    live_.emplace(comm.get(), Live{comm, {}, t, dst, true});
    comm->vetoable_start();
  }

  void completed(const s4u::Activity& activity) {
    last_ = s4u::Engine::get_clock();
    const auto it = live_.find(&activity);
    if (it == live_.end()) return;
    const Live done = it->second;
    kept_[++num_kept_ % kept_.size()] = done.activity;  // SimGrid still uses it after this call
    live_.erase(it);
    if (done.transfer) return deliver(done.tensor, done.to);
    const DeviceId d = device_[done.op];
    for (const TensorId t : graph_.outputs(done.op)) {
      deliver(t, d);
      std::vector<DeviceId> sent{d};
      for (const EdgeId e : graph_.readers(t)) {
        const DeviceId dst = device_[graph_.edge(e).dst];
        if (std::ranges::find(sent, dst) != sent.end()) continue;
        sent.push_back(dst);
        send(t, d, dst);
      }
    }
    busy_[index(d)] = 0;
    start_next(d);
  }

  void deliver(TensorId t, DeviceId d) {
    for (const EdgeId e : graph_.readers(t)) {
      const OpId v = graph_.edge(e).dst;
      if (device_[v] == d && --unmet_[v] == 0) make_ready(v);
    }
  }

  const OpGraph& graph_;
  const CostModel& costs_;
  const IdVector<OpId, DeviceId>& device_;
  std::vector<s4u::Host*> hosts_;
  std::vector<std::priority_queue<Ready, std::vector<Ready>, std::greater<>>> ready_;
  std::vector<char> busy_;
  IdVector<OpId, std::uint32_t> unmet_;
  std::vector<OpId> sources_;
  std::unordered_map<const s4u::Activity*, Live> live_;
  std::array<s4u::ActivityPtr, 64> kept_;
  std::size_t num_kept_ = 0;
  double last_ = 0;
};

}  // namespace
}  // namespace baechi::bench

int main() {
  using namespace baechi;
  std::vector<std::string> words{"simgrid_peer", "--cfg=network/model:CM02",
                                 "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0",
                                 "--log=root.thres:warning"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  simgrid::s4u::Engine engine(&count, arguments.data());

  constexpr std::int64_t ops = 100000;
  const OpGraph& graph = bench::layered(ops);
  const Cluster cluster = bench::cluster(8);
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs, {.transfers = Transfers::parallel}};
  const Placement placement = bench::mostly_local(graph, 8);

  bench::Peer peer(problem, placement);
  const double start = bench::cpu_ns();
  const double makespan = peer.run(engine);
  const double middle = bench::cpu_ns();
  const StepResult own = simulate(problem, placement);
  const double end = bench::cpu_ns();
  fmt::print("simgrid/{}: {:.0f} ns per op, step of {:.6f} s\n", ops, (middle - start) / ops,
             makespan / 1e9);
  fmt::print("simulate/{}: {:.0f} ns per op with preparation, step of {:.6f} s: {:.1f} x faster\n",
             ops, (end - middle) / ops, to_us(own.makespan) / 1e6,
             (middle - start) / (end - middle));
  std::fflush(stdout);
  std::_Exit(std::abs(makespan - static_cast<double>(own.makespan.count())) < 1e-6 * makespan ? 0
                                                                                              : 1);
}
