#include <cmath>

#include "sim/transform/what_if/where.h"

namespace baechi::what_if {
namespace {

/// Changes properties of the selected ops.
class ChangeAttributes final : public Verb {
 public:
  explicit ChangeAttributes(Attributes attributes) : attributes_(std::move(attributes)) {}
  Change apply(const Scope& scope, const Selection& selected) const override {
    return with_attributes(scope, selected, attributes_);
  }
  bool needs_times() const override { return attributes_.needs_times(); }

 private:
  Attributes attributes_;
};

template <class T>
void set(Options& o, const std::string& key, T none, std::string_view help,
         std::function<T(T)>& change) {
  if (o.raw(key, help) == nullptr) return;
  const T value = o.get(key, none, help);
  change = [value](T) { return value; };
}

double read_factor(Options& o, const std::string& key, std::string_view help) {
  constexpr double most = 1e6;
  return o.get(key, 1.0, help, 0.0, most);
}
void scale_bytes(Options& o, const std::string& key, std::string_view help,
                 std::function<Bytes(Bytes)>& change) {
  const double factor = read_factor(o, key, help);
  if (factor != 1.0) change = [factor](Bytes size) { return Amount{.share = factor}.of(size); };
}

}  // namespace

/// Sets properties of the selected ops. Work is set per kernel.
std::unique_ptr<Verb> make_set(Options& o) {
  Attributes all;
  set(o, "time", Duration{}, "time on every device", all.time);
  set(o, "transfer", Duration{}, "time of a transfer between two devices", all.transfer);
  set(o, "bytes", Bytes{}, "size of each tensor that is written; of a collective", all.bytes);
  set(o, "weights", Bytes{}, "persistent bytes", all.weights);
  set(o, "workspace", Bytes{}, "temporary bytes", all.workspace);
  set(o, "traffic", Bytes{}, "bytes that each kernel reads and writes", all.traffic);
  set(o, "flops", std::int64_t{}, "arithmetic of each kernel", all.flops);
  if (const std::string lane = o.get("lane", "", "compute, host, comm, copy or any other");
      !lane.empty())
    all.lane = lane;
  all.to = read_to(o);
  return std::make_unique<ChangeAttributes>(std::move(all));
}

/// Multiplies properties of the selected ops. Bytes are rounded up, times and flops to the nearest.
std::unique_ptr<Verb> make_scale(Options& o) {
  Attributes all;
  if (const double factor = read_factor(o, "time", "time on every device"); factor != 1.0)
    all.time = [factor](Duration time) {
      return Duration{saturated(std::round(factor * static_cast<double>(time.count())))};
    };
  scale_bytes(o, "bytes", "size of outputs; of a collective", all.bytes);
  scale_bytes(o, "weights", "persistent bytes", all.weights);
  scale_bytes(o, "workspace", "temporary bytes", all.workspace);
  scale_bytes(o, "traffic", "bytes that kernels read and write", all.traffic);
  if (const double factor = read_factor(o, "flops", "arithmetic of the kernels"); factor != 1.0)
    all.flops = [factor](std::int64_t flops) {
      return saturated(std::round(factor * static_cast<double>(flops)));
    };
  all.to = read_to(o);
  return std::make_unique<ChangeAttributes>(std::move(all));
}

}  // namespace baechi::what_if
