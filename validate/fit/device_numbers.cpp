#include "validate/fit/device_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace baechi::validate {
namespace {

/// The pull of a deviation: to move it by a factor of e must explain 0.3 of one row's logarithm.
constexpr double pull = 0.3;

struct Start {
  std::string_view what;
  double value;
};
/// Where the numbers begin, in the units of DeviceNumbers' formulas.
constexpr std::array<Start, 8> starts{{{"share", 0.6},
                                       {"share Conv2d", 0.5},
                                       {"share GroupedConv2d", 0.15},
                                       {"half", 5e7},
                                       {"bandwidth", 0.75},
                                       {"launch", 2e-6},
                                       {"host_op", 4e-5},
                                       {"host_step", 2e-3}}};

/// Deviations have a "@" in their name.
bool is_deviation(std::string_view name) {
  return name.find('@') != std::string_view::npos;
}

double start_of(std::string_view name) {
  if (is_deviation(name)) return 1.0;
  const std::string_view what = name.substr(0, name.find(':'));
  return std::ranges::find(starts, what, &Start::what)->value;
}

std::string share_name(std::size_t k) {
  return share_kinds[k].empty() ? "share" : fmt::format("share {}", share_kinds[k]);
}

}  // namespace

void FitCase::add(const OpGraph& graph, double times) {
  std::map<Kernel, double> all;
  for (const Kernel& k : kernels) {
    Kernel same = k;
    same.count = 0.0;
    all[same] += k.count;
  }
  std::vector<std::size_t> share;
  const Efficiency kinds{.other = 0.0, .by_kind = {{"Conv2d", 1.0}, {"GroupedConv2d", 2.0}}};
  for (const std::string& kind : graph.kinds())
    share.push_back(static_cast<std::size_t>(kinds.of(kind)));
  for (const OpId v : graph.ops()) {
    for (const OpWork& work : graph.kernels(v))
      all[{.share = share[graph.op(v).kind],
           .flops = work.precision == format ? static_cast<double>(work.flops) : 0.0,
           .traffic = static_cast<double>(work.traffic.count)}] += times;
  }
  kernels.clear();
  for (const auto& [kernel, count] : all) {
    kernels.push_back(kernel);
    kernels.back().count = count;
  }
  launches += times * static_cast<double>(graph.num_ops());
  passes += times;
}

DeviceNumbers::DeviceNumbers(std::span<const FitCase> cases) : cases_(cases) {
  // Numbers of what is measured; product() leaves out the others.
  for (const FitCase& c : cases) {
    const std::string format(to_text(c.format));
    for (std::size_t k = 0; k < share_kinds.size(); ++k)
      for (const std::string& of : {format, format + "@" + c.gpu, format + "@" + c.framework})
        id_.try_emplace(share_name(k) + ":" + of);
    for (const std::string& what :
         {"half:" + format, std::string("bandwidth"), std::string("launch"), std::string("host_op"),
          std::string("host_step")}) {
      id_.try_emplace(what);
      id_.try_emplace(what.substr(0, what.find(':')) + "@" + c.framework);
    }
    id_.try_emplace("bandwidth@" + c.gpu);
  }
  for (auto& [name, id] : id_) {
    id = static_cast<std::uint32_t>(problem_.numbers.size());
    problem_.numbers.push_back(
        {.start = std::log(start_of(name)), .weight = is_deviation(name) ? 1.0 : 0.0});
    x_.push_back(problem_.numbers.back().start);
  }
  problem_.rows = cases.size();
  problem_.pull = pull;
  for (std::uint32_t row = 0; row < cases.size(); ++row) {
    parts_.push_back(parts(cases[row].gpu, cases[row].framework, cases[row].format));
    const Parts& p = parts_.back();
    std::set<std::uint32_t> all;
    for (const Product* one : {&p.share[0], &p.share[1], &p.share[2], &p.half_flops, &p.bandwidth,
                               &p.launch, &p.host_op, &p.host_step})
      all.insert(one->begin(), one->end());
    for (const std::uint32_t n : all) problem_.numbers[n].rows.push_back(row);
  }
  problem_.loss = [this](std::uint32_t row, std::span<const double> x) {
    return std::abs(std::log(seconds(cases_[row], parts_[row], x) / cases_[row].measured));
  };
}

DeviceNumbers::Product DeviceNumbers::product(std::initializer_list<std::string> names) const {
  Product found;
  for (const std::string& name : names)
    if (const auto it = id_.find(name); it != id_.end()) found.push_back(it->second);
  return found;
}

DeviceNumbers::Parts DeviceNumbers::parts(const std::string& gpu, const std::string& framework,
                                          Precision format) const {
  const std::string f(to_text(format));
  Parts p;
  for (std::size_t k = 0; k < share_kinds.size(); ++k) {
    const std::string share = share_name(k) + ":" + f;
    p.share[k] = product({share, share + "@" + gpu, share + "@" + framework});
  }
  p.half_flops = product({"half:" + f, "half@" + framework});
  p.bandwidth = product({"bandwidth", "bandwidth@" + gpu, "bandwidth@" + framework});
  p.launch = product({"launch", "launch@" + framework});
  p.host_op = product({"host_op", "host_op@" + framework});
  p.host_step = product({"host_step", "host_step@" + framework});
  return p;
}

double DeviceNumbers::value(const Product& product, std::span<const double> x) const {
  double sum = 0.0;
  for (const std::uint32_t n : product) sum += x[n];
  return std::exp(sum);
}

double DeviceNumbers::seconds(const FitCase& c, const Parts& p, std::span<const double> x) const {
  std::array<double, share_kinds.size()> rate{};
  for (std::size_t k = 0; k < rate.size(); ++k) rate[k] = c.peak * value(p.share[k], x);
  const double half = value(p.half_flops, x), bandwidth = c.bandwidth * value(p.bandwidth, x),
               launch = value(p.launch, x);
  double device = 0.0;
  for (const FitCase::Kernel& k : c.kernels) {
    const double arithmetic = k.flops > 0.0 ? (k.flops + half) / rate[k.share] : 0.0;
    device += k.count * (launch + std::max(arithmetic, k.traffic / bandwidth));
  }
  return std::max(device, c.passes * value(p.host_step, x) + c.launches * value(p.host_op, x));
}

double DeviceNumbers::predicted(const FitCase& c) const {
  return seconds(c, parts(c.gpu, c.framework, c.format), x_);
}

void DeviceNumbers::fit(const std::vector<bool>& use, int restarts) {
  x_ = search(problem_, use, restarts);
}

DeviceModel DeviceNumbers::device(const DeviceModel& sheet, const std::string& gpu,
                                  const std::string& framework) const {
  DeviceModel model = sheet;
  Parts p;
  for (const Precision format : all<Precision>()) {
    // bf16 runs on the units of fp16; nobody measured it here.
    p = parts(gpu, framework, format == Precision::bf16 ? Precision::fp16 : format);
    Arithmetic& of = model.at(format);
    of.efficiency.other = value(p.share[0], x_);
    for (std::size_t k = 1; k < share_kinds.size(); ++k)
      of.efficiency.by_kind[std::string(share_kinds[k])] = value(p.share[k], x_);
    of.half_flops = value(p.half_flops, x_);
  }
  const auto time = [&](const Product& seconds) {
    return Duration{std::llround(1e9 * value(seconds, x_))};
  };
  model.bandwidth_efficiency = value(p.bandwidth, x_);
  model.launch = time(p.launch);
  model.no_kernel = {};
  model.host_op = time(p.host_op);
  model.host_step = time(p.host_step);
  return model;
}

std::size_t DeviceNumbers::moved() const {
  std::size_t n = 0;
  for (std::size_t i = 0; i < x_.size(); ++i) n += x_[i] != problem_.numbers[i].start;
  return n;
}

}  // namespace baechi::validate
