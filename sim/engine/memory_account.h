/// The memory in use on one device, by kind, and its limit.
#pragma once
#include <limits>

#include "sim/problem/step.h"

namespace baechi {

class MemoryAccount {
 public:
  /// Unlimited.
  MemoryAccount() = default;
  explicit MemoryAccount(Bytes limit) : limit_(limit) {}

  void reset() { *this = MemoryAccount(limit_); }

  bool fits(Bytes size) const { return used_ + size <= limit_; }
  Bytes free() const { return limit_ - used_; }
  const MemoryUse& live() const { return live_; }
  Bytes peak() const { return peak_; }
  const MemoryUse& at_peak() const { return at_peak_; }

  void take(MemoryKind kind, Bytes size) {
    live_[kind] += size;
    used_ += size;
  }
  void give_back(MemoryKind kind, Bytes size) {
    live_[kind] -= size;
    used_ -= size;
  }
  /// To be called after a complete request: peaks within a request are not recorded.
  void note_peak() {
    if (used_ <= peak_) return;
    peak_ = used_;
    at_peak_ = live_;
  }

 private:
  MemoryUse live_{};
  Bytes used_{}, limit_{std::numeric_limits<std::int64_t>::max()}, peak_{};
  MemoryUse at_peak_{};
};

}  // namespace baechi
