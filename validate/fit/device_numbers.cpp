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

/// The format whose units compute: bf16 runs on those of fp16; nobody measured it here.
std::size_t unit_of(Precision format) {
  return static_cast<std::size_t>(format == Precision::bf16 ? Precision::fp16 : format);
}

std::string format_text(std::size_t format) {
  return std::string(to_text(static_cast<Precision>(format)));
}

}  // namespace

void FitCase::add(const OpGraph& graph, double times) {
  std::map<Kernel, std::uint32_t> known;
  for (const Kernel& k : kernels) known.emplace(k, static_cast<std::uint32_t>(known.size()));
  std::vector<std::size_t> share;
  const Efficiency kinds{.other = 0.0, .by_kind = {{"Conv2d", 1.0}, {"GroupedConv2d", 2.0}}};
  for (const std::string& kind : graph.kinds())
    share.push_back(static_cast<std::size_t>(kinds.of(kind)));
  Run& run = runs.emplace_back(Run{.times = times});
  for (const OpId v : graph.ops()) {
    for (const OpWork& work : graph.kernels(v)) {
      const Kernel kernel{.share = share[graph.op(v).kind],
                          .format = unit_of(work.precision),
                          .flops = static_cast<double>(work.flops),
                          .traffic = static_cast<double>(work.traffic.count)};
      const auto [it, added] = known.emplace(kernel, static_cast<std::uint32_t>(kernels.size()));
      if (added) kernels.push_back(kernel);
      if (work.flops > 0) formats.insert(kernel.format);
      run.kernels.push_back(it->second);
    }
    run.ends.push_back(static_cast<std::uint32_t>(run.kernels.size()));
  }
}

DeviceNumbers::DeviceNumbers(std::span<const FitCase> cases) : cases_(cases) {
  // Numbers of what is measured; product() leaves out the others.
  for (const FitCase& c : cases) {
    for (const std::size_t f : c.formats) {
      const std::string format = format_text(f);
      for (std::size_t k = 0; k < share_kinds.size(); ++k)
        for (const std::string& of : {format, format + "@" + c.gpu, format + "@" + c.framework})
          id_.try_emplace(share_name(k) + ":" + of);
      id_.try_emplace("half:" + format);
    }
    id_.try_emplace("half@" + c.framework);
    for (const std::string what : {"bandwidth", "launch", "host_op", "host_step"}) {
      id_.try_emplace(what);
      id_.try_emplace(what + "@" + c.framework);
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
    parts_.push_back(parts(cases[row].gpu, cases[row].framework));
    const Parts& p = parts_.back();
    std::set<std::uint32_t> all;
    for (const Product* one : {&p.bandwidth, &p.launch, &p.host_op, &p.host_step})
      all.insert(one->begin(), one->end());
    for (const FitCase::Kernel& k : cases[row].kernels) {
      if (k.flops <= 0.0) continue;
      for (const Product* one :
           {&p.format[k.format].share[k.share], &p.format[k.format].half_flops})
        all.insert(one->begin(), one->end());
    }
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

DeviceNumbers::Parts DeviceNumbers::parts(const std::string& gpu,
                                          const std::string& framework) const {
  Parts p;
  for (std::size_t i = 0; i < num_formats; ++i) {
    const std::string format = format_text(i);
    for (std::size_t k = 0; k < share_kinds.size(); ++k) {
      const std::string share = share_name(k) + ":" + format;
      p.format[i].share[k] = product({share, share + "@" + gpu, share + "@" + framework});
    }
    p.format[i].half_flops = product({"half:" + format, "half@" + framework});
  }
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
  std::array<std::array<double, share_kinds.size()>, num_formats> rate{};
  std::array<double, num_formats> half{};
  for (const std::size_t f : c.formats) {
    for (std::size_t k = 0; k < share_kinds.size(); ++k)
      rate[f][k] = c.peak[f] * std::min(1.0, value(p.format[f].share[k], x));
    half[f] = value(p.format[f].half_flops, x);
  }
  const double bandwidth = c.bandwidth * std::min(1.0, value(p.bandwidth, x)),
               launch = value(p.launch, x), host_op = value(p.host_op, x),
               host_step = value(p.host_step, x);
  std::vector<double> time;
  for (const FitCase::Kernel& k : c.kernels) {
    const double arithmetic =
        k.flops > 0.0 ? (k.flops + half[k.format]) / rate[k.format][k.share] : 0.0;
    time.push_back(launch + std::max(arithmetic, k.traffic / bandwidth));
  }
  double sum = 0.0;
  for (const FitCase::Run& run : c.runs) {
    double launched = host_step, end = 0.0;
    std::uint32_t k = 0;
    for (const std::uint32_t until : run.ends) {
      launched += host_op;
      end = std::max(end, launched);
      for (; k < until; ++k) end += time[run.kernels[k]];
    }
    sum += run.times * end;
  }
  return sum;
}

double DeviceNumbers::predicted(const FitCase& c) const {
  return seconds(c, parts(c.gpu, c.framework), x_);
}

void DeviceNumbers::fit(const std::vector<bool>& use, int restarts) {
  x_ = search(problem_, use, restarts);
}

DeviceModel DeviceNumbers::device(const DeviceModel& sheet, const std::string& gpu,
                                  const std::string& framework) const {
  DeviceModel model = sheet;
  const Parts p = parts(gpu, framework);
  for (const Precision format : all<Precision>()) {
    const Parts::Format& own = p.format[unit_of(format)];
    Arithmetic& of = model.at(format);
    of.efficiency.other = std::min(1.0, value(own.share[0], x_));
    for (std::size_t k = 1; k < share_kinds.size(); ++k)
      of.efficiency.by_kind[std::string(share_kinds[k])] = std::min(1.0, value(own.share[k], x_));
    of.half_flops = value(own.half_flops, x_);
  }
  const auto time = [&](const Product& seconds) {
    return Duration{std::llround(1e9 * value(seconds, x_))};
  };
  model.bandwidth_efficiency = std::min(1.0, value(p.bandwidth, x_));
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
