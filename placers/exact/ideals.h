/// The ideals of a set of bundles: sets that contain all predecessors of their bundles. The first
/// devices of a pipeline together hold an ideal.
#pragma once

#include "placers/exact/bundles.h"

namespace baechi::exact {

enum class IdealId : std::uint32_t {};

/// Ideal 0 is empty, the last is everything. An ideal's id is above the ids of the ideals in it.
class Ideals {
 public:
  /// An ideal with one bundle less.
  struct Lower {
    BundleId bundle;  ///< the bundle removed: nothing of the ideal comes after it
    IdealId ideal;
  };

  /// All ideals; nothing if there are more than `most`.
  static std::optional<Ideals> enumerate(const BundleOrder& order, std::size_t most);
  /// Only the prefixes of `order`, a topological order of all bundles.
  static Ideals chain(std::span<const BundleId> order);

  std::size_t size() const { return begin_.size() - 1; }
  auto ideals() const { return id_range<IdealId>(0, size()); }
  IdealId all() const { return static_cast<IdealId>(size() - 1); }
  std::span<const Lower> lower(IdealId i) const {
    return {lower_.data() + begin_[index(i)], lower_.data() + begin_[index(i) + 1]};
  }

 private:
  Ideals() = default;
  std::vector<Lower> lower_;
  std::vector<std::uint32_t> begin_{0};  // [num_ideals + 1], into lower_
};

/// Traverses, depth-first, the ideals within one, that is, all stages that end a pipeline for it.
/// Each is met once: at every ideal, each bundle that may be removed either is removed next or
/// stays.
///
/// `Part` is the policy for the cost of a stage: add(bundle) and remove(bundle) change the stage,
/// hopeless() says that neither this stage nor a larger one is of use.
template <class Part>
class StageTraversal {
 public:
  StageTraversal(const Ideals& ideals, std::size_t bundles, Part& part)
      : ideals_(ideals), part_(part), stays_(bundles, false) {}

  /// Calls visit(ideal) for all ideals within `top` except `top`; the part then holds the bundles
  /// between. True ends the traversal. The part is empty before and after.
  template <class Visit>
  void traverse(IdealId top, Visit&& visit) {
    frames_.push_back(frame(top));
    bool done = false;
    while (!frames_.empty()) {
      Frame& f = frames_.back();
      if (done || f.next == f.end) {
        for (; kept_.size() > f.kept; kept_.pop_back()) stays_[kept_.back()] = false;
        frames_.pop_back();
        if (frames_.empty()) return;
        keep(taken_.back());
        part_.remove(taken_.back());
        taken_.pop_back();
        continue;
      }
      const Ideals::Lower lower = *f.next++;
      if (stays_[lower.bundle]) continue;
      part_.add(lower.bundle);
      if (part_.hopeless()) {
        part_.remove(lower.bundle);
        keep(lower.bundle);
        continue;
      }
      taken_.push_back(lower.bundle);
      done = visit(lower.ideal);
      frames_.push_back(frame(lower.ideal));
    }
  }

  const std::vector<BundleId>& taken() const { return taken_; }  ///< the stage, during visit()

 private:
  struct Frame {
    const Ideals::Lower* next;
    const Ideals::Lower* end;
    std::size_t kept;  // size of kept_ before it
  };
  Frame frame(IdealId i) const {
    const auto lower = ideals_.lower(i);
    return {lower.data(), lower.data() + lower.size(), kept_.size()};
  }
  void keep(BundleId b) {
    stays_[b] = true;
    kept_.push_back(b);
  }

  const Ideals& ideals_;
  Part& part_;
  std::vector<Frame> frames_;
  std::vector<BundleId> taken_;
  IdVector<BundleId, char> stays_;
  std::vector<BundleId> kept_;  // those that stay, as decided
};

}  // namespace baechi::exact
