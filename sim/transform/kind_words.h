/// Patterns of kinds of ops in options of transforms.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

/// A list of words. A word matches every kind that contains it, case-insensitively: "norm" matches
/// LayerNorm and FusedBatchNormV3Backward. With * or ? it is a wildcard pattern of the whole kind.
class KindWords {
 public:
  explicit KindWords(std::vector<std::string> words = {}) : words_(std::move(words)) {}
  /// The option `key`: a word or a list of words; `fallback` if not given.
  static KindWords read(Options& options, const std::string& key, std::vector<std::string> fallback,
                        std::string_view help);

  /// Those of the words that are patterns, or that `others` match.
  KindWords patterns_and(const KindWords& others) const;

  bool empty() const { return words_.empty(); }
  bool describe(std::string_view kind) const;
  /// Which of the graph's kinds they match. [kinds of the graph]
  std::vector<bool> of_kinds(const OpGraph& graph) const;

 private:
  std::vector<std::string> words_;
};

/// Compute-bound kinds of ops; all others are memory-bound. A substitute for a roofline where only
/// times are known.
const KindWords& compute_bound_kinds();

}  // namespace baechi
