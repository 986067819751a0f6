/// The mistakes of a scenario, gathered from everywhere it is read.
#pragma once
#include <concepts>
#include <set>
#include <string>
#include <vector>

#include "sim/error.h"

namespace baechi {

/// Mistakes, each once, in the order of their places: a mistake in a block that a sweep repeats is
/// one.
class Findings {
 public:
  void add(const std::string& lines);
  /// Whether `work` threw no InputError; what it threw is added.
  bool attempt(const std::invocable auto& work) {
    try {
      work();
      return true;
    } catch (const InputError& e) {
      add(e.what());
      return false;
    }
  }
  std::size_t size() const { return lines_.size(); }
  void pour_into(Mistakes& mistakes) const;

 private:
  std::vector<std::string> lines_;
  std::set<std::string> seen_;
};

}  // namespace baechi
