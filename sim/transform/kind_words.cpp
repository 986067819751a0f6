#include "sim/transform/kind_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/text.h"

namespace baechi {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_pattern(std::string_view word) {
  return word.find_first_of("*?") != std::string_view::npos;
}

}  // namespace

KindWords KindWords::read(Options& options, const std::string& key,
                          std::vector<std::string> fallback, std::string_view help) {
  const Options::Value* given =
      options.raw(key, fallback.empty() ? std::string(help)
                                        : fmt::format("{} [{}]", help, fmt::join(fallback, ", ")));
  if (given == nullptr) return KindWords(std::move(fallback));
  std::vector<std::string> words;
  if (!given->text.empty()) words.push_back(given->text);
  for (const auto& [name, word] : given->children) {
    if (!name.empty() || !word.children.empty() || word.text.empty())
      options.mistake(key, "not a list of kinds of ops");
    words.push_back(word.text);
  }
  return KindWords(std::move(words));
}

KindWords KindWords::patterns_and(const KindWords& others) const {
  KindWords taken;
  for (const std::string& word : words_)
    if (is_pattern(word) || others.describe(word)) taken.words_.push_back(word);
  return taken;
}

bool KindWords::describe(std::string_view kind) const {
  const std::string lower = lower_case(kind);
  return std::ranges::any_of(words_, [&](const std::string& word) {
    const std::string pattern = lower_case(word);
    if (is_pattern(pattern)) return Wildcard{pattern}.matches(lower);
    return lower.find(pattern) != std::string::npos;
  });
}

std::vector<bool> KindWords::of_kinds(const OpGraph& graph) const {
  std::vector<bool> described;
  for (const std::string& kind : graph.kinds()) described.push_back(describe(kind));
  return described;
}

const KindWords& compute_bound_kinds() {
  static const KindWords words({"conv", "matmul", "gemm", "linear", "dense", "attention", "lstm",
                                "gru", "bmm", "addmm", "einsum", "aten::mm"});
  return words;
}

}  // namespace baechi
