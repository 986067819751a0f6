#include "sim/transform/what_if/where.h"

namespace baechi::what_if {
namespace {

/// Sets properties of the selected ops. Work is set per kernel.
class Set final : public Verb {
 public:
  explicit Set(Options& o) {
    set(o, "time", Duration{}, "time on every device", attributes_.time);
    set(o, "transfer", Duration{}, "time of a transfer between two devices", attributes_.transfer);
    set(o, "bytes", Bytes{}, "size of each tensor that is written; of a collective",
        attributes_.bytes);
    set(o, "weights", Bytes{}, "persistent bytes", attributes_.weights);
    set(o, "workspace", Bytes{}, "temporary bytes", attributes_.workspace);
    set(o, "traffic", Bytes{}, "bytes that each kernel reads and writes", attributes_.traffic);
    set(o, "flops", std::int64_t{}, "arithmetic of each kernel", attributes_.flops);
    if (const std::string lane = o.get("lane", "", "compute, host, comm, copy or any other");
        !lane.empty())
      attributes_.lane = lane;
    attributes_.to = read_to(o);
  }

  Change apply(const Scope& scope, const Selection& selected) const override {
    return with_attributes(scope, selected, attributes_);
  }
  bool needs_times() const override { return attributes_.needs_times(); }

 private:
  template <class T>
  static void set(Options& o, const std::string& key, T none, std::string_view help,
                  std::function<T(T)>& change) {
    if (o.raw(key, help) == nullptr) return;
    const T value = o.get(key, none, help);
    change = [value](T) { return value; };
  }

  Attributes attributes_;
};

}  // namespace

std::unique_ptr<Verb> make_set(Options& o) { return std::make_unique<Set>(o); }

}  // namespace baechi::what_if
