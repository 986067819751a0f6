#include <cmath>

#include "sim/transform/what_if/where.h"

namespace baechi::what_if {
namespace {

/// Multiplies properties of the selected ops. Bytes are rounded up, times and flops to the nearest.
class Scale final : public Verb {
 public:
  explicit Scale(Options& o) {
    if (const double factor = read(o, "time", "time on every device"); factor != 1.0)
      attributes_.time = [factor](Duration time) {
        return Duration{saturated(std::round(factor * static_cast<double>(time.count())))};
      };
    set_bytes(o, "bytes", "size of outputs; of a collective", attributes_.bytes);
    set_bytes(o, "weights", "persistent bytes", attributes_.weights);
    set_bytes(o, "workspace", "temporary bytes", attributes_.workspace);
    set_bytes(o, "traffic", "bytes that kernels read and write", attributes_.traffic);
    if (const double factor = read(o, "flops", "arithmetic of the kernels"); factor != 1.0)
      attributes_.flops = [factor](std::int64_t flops) {
        return saturated(std::round(factor * static_cast<double>(flops)));
      };
    attributes_.to = read_to(o);
  }

  Change apply(const Scope& scope, const Selection& selected) const override {
    return with_attributes(scope, selected, attributes_);
  }
  bool needs_times() const override { return attributes_.needs_times(); }

 private:
  static double read(Options& o, const std::string& key, std::string_view help) {
    constexpr double most = 1e6;
    return o.get(key, 1.0, help, 0.0, most);
  }
  static void set_bytes(Options& o, const std::string& key, std::string_view help,
                        std::function<Bytes(Bytes)>& change) {
    const double factor = read(o, key, help);
    if (factor != 1.0) change = [factor](Bytes size) { return Amount{.share = factor}.of(size); };
  }

  Attributes attributes_;
};

}  // namespace

std::unique_ptr<Verb> make_scale(Options& o) { return std::make_unique<Scale>(o); }

}  // namespace baechi::what_if
