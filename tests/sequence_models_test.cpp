#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

#include "placers/registry.h"
#include "sim/engine/simulation.h"
#include "traces/generate/generator.h"

using namespace baechi;
using namespace baechi::literals;
using namespace std::chrono_literals;

namespace {

using Settings = std::map<std::string, std::string>;

OpGraph generated(std::string_view name, const Settings& settings) {
  std::map<std::string, Options::Value> given;
  for (const auto& [key, text] : settings) given[key] = {.text = text, .where = "", .children = {}};
  return generate_trace(name, Options(std::string(name), given)).graph;
}

/// Some times, so that ops come one after another: those of about an RTX 2080.
OpGraph timed(const OpGraph& graph) {
  IdVector<OpId, Duration> compute(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const OpWork work = graph.work(v);
    if (work == OpWork{}) continue;
    compute[v] = 5us + std::max(Duration{work.flops / 5'000}, Duration{work.traffic.count / 300});
  }
  return graph.with_times("", compute);
}

StepResult step(const OpGraph& graph, std::size_t devices, Bytes memory, const Placement& placement,
                bool enforce = true) {
  const Cluster cluster =
      Cluster::uniform(devices, memory, {.bandwidth = 5.7_GBps, .latency = 134us});
  const ProfiledCosts costs(graph, cluster);
  return simulate(
      {.graph = graph, .cluster = cluster, .costs = costs, .engine = {.enforce_memory = enforce}},
      placement);
}

StepResult on_one(const OpGraph& graph, Bytes memory, bool enforce = true) {
  return step(graph, 1, memory, {.device = IdVector<OpId, DeviceId>(graph.num_ops())}, enforce);
}

}  // namespace

TEST_SUITE("sequence_models") {
  TEST_CASE("peaks") {
    for (const auto& [name, settings] : std::vector<std::pair<std::string, Settings>>{
             {"gnmt", {{"level", "tf1"}, {"length", "40"}, {"batch", "128"}}},
             {"gnmt", {{"level", "tf1"}, {"length", "50"}, {"batch", "128"}}},
             {"gnmt", {{"level", "tf1"}, {"length", "40"}, {"batch", "256"}}},
             {"gnmt", {{"level", "tf1"}, {"length", "50"}, {"batch", "256"}}},
             {"gnmt", {{"length", "40"}, {"batch", "128"}}},
             {"gnmt", {{"length", "50"}, {"batch", "256"}}},
             {"transformer", {{"batch", "64"}}},
             {"transformer", {{"batch", "128"}}},
             {"bert", {}},
             {"gpt2", {}},
             {"gpt2", {{"size", "xl"}}},
             {"llama", {}},
             {"moe", {}}}) {
      const OpGraph g = timed(generated(name, settings));
      const StepResult r = on_one(g, 8_GiB, false);
      std::string s;
      for (auto& [k, v] : settings) s += k + "=" + v + " ";
      const DeviceUse& d = r.devices[DeviceId{0}];
      MESSAGE(name << " " << s << g.num_ops() << " ops, peak " << to_text(d.peak) << " time "
                   << to_text(r.makespan) << " w " << to_text(d.at_peak[MemoryKind::weights])
                   << " o " << to_text(d.at_peak[MemoryKind::outputs]) << " t "
                   << to_text(d.at_peak[MemoryKind::workspace]));
    }
    for (const auto& [name, settings, rules, n] :
         std::vector<std::tuple<std::string, Settings, std::string, std::size_t>>{
             {"gnmt", {{"level", "tf1"}}, "gnmt", 4},
             {"gnmt", {{"level", "tf1"}, {"length", "50"}}, "gnmt", 4},
             {"gnmt", {}, "gnmt", 4},
             {"transformer", {}, "transformer", 2}}) {
      const OpGraph g = timed(generated(name, settings));
      const Cluster cluster = Cluster::uniform(n, 8_GiB, {.bandwidth = 5.7_GBps, .latency = 134us});
      const ProfiledCosts costs(g, cluster);
      std::map<std::string, Options::Value> given;
      given["rule_file"] = {
          .text = BAECHI_SOURCE_DIR "/scenarios/papers/baechi_socc20/" + rules + ".rules",
          .where = "",
          .children = {}};
      const Placement p = make_placer("expert", Options("expert", given))
                              ->place({.graph = g, .cluster = cluster, .costs = costs}, 0);
      const StepResult r = step(g, n, 8_GiB, p, false);
      struct Spy : StepObserver {
        const OpGraph& g;
        std::vector<std::string> lines;
        Spy(const OpGraph& gg) : g(gg) {}
        void on_op(OpId v, DeviceId d, TimePoint s, TimePoint e) override {
          auto us = [](TimePoint t) { return t.time_since_epoch().count() / 1000; };
          lines.push_back(fmt::format("{} {} {} {}", us(s), us(e), index(d), g.name(v)));
        }
        void on_transfer(TensorId t, DeviceId a, DeviceId b, TimePoint s, TimePoint e) override {
          auto us = [](TimePoint t2) { return t2.time_since_epoch().count() / 1000; };
          lines.push_back(fmt::format("{} {} {}->{} {} {}", us(s), us(e), index(a), index(b),
                                      g.name(g.tensor(t).producer), g.tensor(t).size.count));
        }
      } spy(g);
      StepObserver* obs[] = {&spy};
      simulate(
          {.graph = g, .cluster = cluster, .costs = costs, .engine = {.enforce_memory = false}}, p,
          obs);
      {
        std::ofstream out("/tmp/spy_" + name + std::to_string(g.num_ops()));
        for (auto& l : spy.lines) out << l << "\n";
      }
      for (std::size_t d = 0; d < n; ++d)
        MESSAGE(
            name << " expert " << p.detail << " " << to_text(r.makespan) << " tr " << r.transfers
                 << " moved " << to_text(r.moved) << " busy "
                 << to_text(r.devices[DeviceId{(unsigned)d}].busy) << " gpu" << d << " "
                 << to_text(r.devices[DeviceId{(unsigned)d}].peak) << " w "
                 << to_text(r.devices[DeviceId{(unsigned)d}].at_peak[MemoryKind::weights]) << " o "
                 << to_text(r.devices[DeviceId{(unsigned)d}].at_peak[MemoryKind::outputs]) << " c "
                 << to_text(r.devices[DeviceId{(unsigned)d}].at_peak[MemoryKind::copies]));
    }
  }
}
