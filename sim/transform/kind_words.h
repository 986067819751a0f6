/// Words that options of transforms name kinds of ops by.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

/// A list of words. A word describes every kind that it is a part of, in capitals or not: "norm"
/// describes LayerNorm and FusedBatchNormV3Backward. With * or ? it is a pattern of the whole kind.
class KindWords {
 public:
  explicit KindWords(std::vector<std::string> words = {}) : words_(std::move(words)) {}
  /// The option `key`: a word or a list of words; `fallback` if not given.
  static KindWords read(Options& options, const std::string& key, std::vector<std::string> fallback,
                        std::string_view help);

  /// Those of the words that are patterns, or that `others` describe.
  KindWords patterns_and(const KindWords& others) const;

  bool empty() const { return words_.empty(); }
  bool describe(std::string_view kind) const;
  /// Whether they describe each of the graph's kinds. [kinds of the graph]
  std::vector<bool> of_kinds(const OpGraph& graph) const;

 private:
  std::vector<std::string> words_;
};

/// Kinds of ops whose time arithmetic decides; memory decides the time of all others. They replace
/// a roofline where only times are known.
const KindWords& compute_bound_kinds();

}  // namespace baechi
