#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/random.h"
#include "traces/import/pytorch/join.h"

using namespace baechi;
using namespace baechi::pytorch;

namespace {

std::vector<std::uint32_t> letters(const std::string& text) {
  return {text.begin(), text.end()};
}

/// The positions of the calls, "-" for a gap: "0 1 - 3"; alignments are separated by "; ".
std::string found(const std::string& calls, const std::string& events, std::size_t most_gaps) {
  std::string text;
  for (const Alignment& place : align(letters(calls), letters(events), most_gaps)) {
    text += text.empty() ? "" : ";";
    for (const auto& at : place) text += at ? " " + std::to_string(*at) : " -";
  }
  return text;
}

/// The fewest gaps, by dynamic programming.
std::size_t fewest_gaps(const std::vector<std::uint32_t>& calls,
                        const std::vector<std::uint32_t>& events) {
  std::vector<std::size_t> row(events.size() + 1, 0);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::vector<std::size_t> next{i + 1};
    for (std::size_t j = 0; j < events.size(); ++j) {
      std::size_t gaps = std::min(row[j + 1], next[j]) + 1;
      if (calls[i] == events[j]) gaps = std::min(gaps, row[j]);
      next.push_back(gaps);
    }
    row = std::move(next);
  }
  return *std::ranges::min_element(row);
}

}  // namespace

TEST_SUITE("align") {
  TEST_CASE("a sequence is found in a longer one with and without gaps") {
    CHECK(found("abc", "xxabcxx", 0) == " 2 3 4");
    CHECK(found("abc", "abcxabc", 0) == " 0 1 2; 4 5 6");  // all alignments with the fewest gaps
    CHECK(found("abc", "xabxcx", 0).empty());
    CHECK(found("abc", "xabxcx", 1) == " 1 2 4");           // an event without a call
    CHECK(found("abcd", "xacdx", 1) == " 1 - 2 3");         // a call without an event
    CHECK(found("abcdef", "abxdef", 2) == " 0 1 - 3 4 5");  // one of each
    CHECK(found("abcdef", "abxdef", 1).empty());
    CHECK(found("", "abc", 1).empty());
    CHECK(found("ab", "", 1).empty());
  }

  TEST_CASE("random sequences: alignments have the fewest gaps") {
    Random random(1);
    for (int run = 0; run < 2000; ++run) {
      CAPTURE(run);
      const auto text = [&](std::size_t most) {
        std::vector<std::uint32_t> names(random.below(static_cast<std::uint32_t>(most)));
        const auto letters = static_cast<std::uint32_t>(1 + random.below(4));
        for (auto& name : names) name = static_cast<std::uint32_t>(random.below(letters));
        return names;
      };
      std::vector<std::uint32_t> calls = text(12);
      calls.push_back(0);
      const auto events = text(15);
      const std::size_t fewest = fewest_gaps(calls, events), most = random.below(14);
      const auto places = align(calls, events, most);
      CHECK(places.empty() == (fewest > most));
      for (const Alignment& place : places) {
        std::vector<std::size_t> at;
        for (std::size_t i = 0; i < place.size(); ++i)
          if (place[i]) {
            CHECK(calls[i] == events[*place[i]]);
            at.push_back(*place[i]);
          }
        CHECK(std::ranges::is_sorted(at, std::less_equal<>{}));
        const std::size_t inside = at.empty() ? 0 : at.back() - at.front() + 1;
        CHECK(calls.size() - at.size() + inside - at.size() <= fewest);
      }
    }
  }
}
