#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/cluster/device_model.h"
#include "sim/report/timeline.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// Work and time of one op or of several.
struct Load {
  double flops = 0.0, traffic = 0.0;
  Duration time{};

  void add(const Load& other) {
    flops += other.flops;
    traffic += other.traffic;
    time += other.time;
  }
  bool drawn() const { return flops > 0.0 && traffic > 0.0 && time > Duration::zero(); }
};

struct RanOp {
  OpId op{};
  DeviceId device{};
  Load load;
};

/// Those of `all` that are drawn(), the longest first, at most `most`.
template <class T, class LoadOf>
std::vector<T> longest(std::vector<T> all, std::size_t most, LoadOf load) {
  std::erase_if(all, [&](const T& one) { return !load(one).drawn(); });
  std::ranges::stable_sort(all, std::greater{}, [&](const T& one) { return load(one).time; });
  if (all.size() > most) all.resize(most);
  return all;
}

std::vector<RanOp> ops_of(const OpGraph& graph, const Timeline& timeline) {
  std::vector<RanOp> ran;
  for (const Timeline::OpSlice& slice : timeline.ops()) {
    RanOp op{.op = slice.op, .device = slice.device, .load = {.time = slice.end - slice.start}};
    for (const OpWork& kernel : graph.kernels(slice.op)) {
      op.load.flops += static_cast<double>(kernel.flops);
      op.load.traffic += static_cast<double>(kernel.traffic.count);
    }
    ran.push_back(op);
  }
  std::ranges::stable_sort(ran, {}, &RanOp::op);
  return ran;
}

Json roofs_of(const OpGraph& graph, const std::vector<RanOp>& ran,
              std::span<const DeviceModel* const> models) {
  std::map<std::string, std::set<Precision>> formats;  // by device type
  std::map<std::string, const DeviceModel*> known;
  for (const RanOp& op : ran) {
    const DeviceModel* model = models[index(op.device)];
    if (model == nullptr || !op.load.drawn()) continue;
    known.emplace(model->name, model);
    for (const OpWork& kernel : graph.kernels(op.op))
      if (kernel.flops > 0) formats[model->name].insert(kernel.precision);
  }
  Json roofs = Json::array();
  for (const auto& [name, model] : known) {
    Json peaks = Json::object();
    for (const Precision p : formats[name])
      peaks[std::string(to_text(p))] = model->at(p).peak.flop_per_second;
    roofs.push_back({{"device", name},
                     {"bandwidth", model->bandwidth.bytes_per_second},
                     {"peaks", std::move(peaks)}});
  }
  return roofs;
}

Json numbers(std::string_view name, const Load& load) {
  return Json::array({name, load.flops, load.traffic, load.time.count()});
}

}  // namespace

std::string roofline(const Problem& problem, const Timeline& timeline,
                     std::span<const DeviceModel* const> models, std::size_t most) {
  const OpGraph& graph = problem.graph;
  const std::vector<RanOp> ran = ops_of(graph, timeline);
  if (std::ranges::none_of(ran, [](const RanOp& op) { return op.load.drawn(); })) return "";
  Json ops = Json::array(), layers = Json::array();
  for (const RanOp& op : longest(ran, most, [](const RanOp& o) { return o.load; })) {
    ops.push_back(numbers(graph.name(op.op), op.load));
    const DeviceModel* model = models[index(op.device)];
    ops.back().push_back(model == nullptr ? -1
                                          : static_cast<int>(bound_by_work(graph, op.op, *model)));
  }
  std::map<std::string_view, Load> by_module;
  for (const RanOp& op : ran)
    if (const std::string_view module = graph.module(op.op); !module.empty())
      by_module[module].add(op.load);
  std::vector<std::pair<std::string_view, Load>> modules(by_module.begin(), by_module.end());
  for (const auto& [name, load] : longest(modules, most, [](const auto& m) { return m.second; }))
    layers.push_back(numbers(name, load));
  const Json drawn{{"roofs", roofs_of(graph, ran, models)},
                   {"ops", std::move(ops)},
                   {"layers", std::move(layers)}};
  return drawn.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace baechi
