#include "placers/exact/ideals.h"

#include "sim/random.h"

namespace baechi::exact {
namespace {

/// An ideal of the size that is being enumerated.
struct Member {
  std::vector<std::uint64_t> bits;  // [num_bundles / 64, rounded up]
  std::vector<BundleId> next{};     // bundles that may be added
  std::vector<Ideals::Lower> lower;
};

/// All ideals of one size, which grows by one bundle per step.
class Level {
 public:
  explicit Level(const BundleOrder& bundles) : bundles_(bundles), key_(bundles.size()) {
    Random random(1);
    for (std::uint64_t& key : key_) key = random.next();
    Member empty{.bits = std::vector<std::uint64_t>((bundles.size() + 63) / 64), .lower = {}};
    for (const BundleId b : bundles.bundles())
      if (bundles.before(b).empty()) empty.next.push_back(b);
    members_.push_back(std::move(empty));
    hashes_.push_back(0);
  }

  const std::vector<Member>& members() const { return members_; }

  /// Goes to the next size; `first` is the id of the first member so far. False if that has more
  /// than `most` members.
  bool advance(std::size_t first, std::size_t most) {
    std::vector<Member> above;
    std::vector<std::uint64_t> hashes;
    std::unordered_multimap<std::uint64_t, std::size_t> by_hash;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Member& member = members_[i];
      for (const BundleId b : member.next) {
        const std::uint64_t hash = hashes_[i] ^ key_[b];
        std::vector<std::uint64_t> bits = member.bits;
        bits[index(b) / 64] |= std::uint64_t{1} << (index(b) % 64);
        const auto [begin, end] = by_hash.equal_range(hash);
        const auto same = std::find_if(
            begin, end, [&](const auto& entry) { return above[entry.second].bits == bits; });
        std::size_t at = above.size();
        if (same != end) {
          at = same->second;
        } else {
          if (above.size() == most) return false;
          by_hash.emplace(hash, at);
          hashes.push_back(hash);
          above.push_back({.bits = std::move(bits), .lower = {}});
          above.back().next = next_after(member, b, above.back().bits);
        }
        above[at].lower.push_back({b, static_cast<IdealId>(first + i)});
      }
    }
    members_ = std::move(above);
    hashes_ = std::move(hashes);
    return true;
  }

 private:
  std::vector<BundleId> next_after(const Member& member, BundleId added,
                                   const std::vector<std::uint64_t>& bits) const {
    std::vector<BundleId> next;
    for (const BundleId b : member.next)
      if (b != added) next.push_back(b);
    const auto holds = [&bits](BundleId b) {
      return (bits[index(b) / 64] >> (index(b) % 64) & 1U) != 0;
    };
    for (const BundleId b : bundles_.after(added))
      if (std::ranges::all_of(bundles_.before(b), holds)) next.push_back(b);
    return next;
  }

  const BundleOrder& bundles_;
  IdVector<BundleId, std::uint64_t> key_;  // an ideal's hash is the xor of its bundles' keys
  std::vector<Member> members_;
  std::vector<std::uint64_t> hashes_;  // [members]
};

}  // namespace

std::optional<Ideals> Ideals::enumerate(const BundleOrder& order, std::size_t most) {
  Ideals ideals;
  Level level(order);
  for (std::size_t taken = 0;; ++taken) {
    const std::size_t first = ideals.size();
    for (const Member& member : level.members()) {
      ideals.lower_.insert(ideals.lower_.end(), member.lower.begin(), member.lower.end());
      ideals.begin_.push_back(static_cast<std::uint32_t>(ideals.lower_.size()));
    }
    if (taken == order.size()) return ideals;
    if (!level.advance(first, most - ideals.size())) return std::nullopt;
  }
}

Ideals Ideals::chain(std::span<const BundleId> order) {
  Ideals ideals;
  ideals.begin_.push_back(0);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    ideals.lower_.push_back({order[i], IdealId{i}});
    ideals.begin_.push_back(i + 1);
  }
  return ideals;
}

}  // namespace baechi::exact
