/// The base of placers that let another placer place.
#pragma once
#include "placers/interface/placer.h"

namespace baechi {

/// place_watched() must be overridden.
class WrappedPlacer : public Placer {
 public:
  explicit WrappedPlacer(std::unique_ptr<Placer> placer) : placer_(std::move(placer)) {}

  Placement place(const Problem& problem, std::uint64_t seed) const final {
    return place_watched(problem, seed, {});
  }
  bool can_stop() const final { return placer_->can_stop(); }
  bool replicates() const final { return placer_->replicates(); }
  void check(const Problem& problem) const final { placer_->check(problem); }

 protected:
  std::unique_ptr<Placer> placer_;
};

}  // namespace baechi
