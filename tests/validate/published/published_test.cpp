#include "validate/published/published.h"

#include <doctest/doctest.h>

#include <set>

#include "sim/error.h"
#include "tests/temporary_folder.h"
#include "validate/fit/fit.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

namespace {

constexpr PublishedBlock by_hand{"by_hand", "four rows", "nothing", "theirs: 5 %", nullptr};

PublishedScore four_rows() {
  return score_of(by_hand, {{"a", "g", 100.0, 110.0},  // +10 %
                            {"b", "h", 100.0, 80.0},   // -20 %
                            {"c", "g", 50.0, 50.0},    // 0
                            {"d", "", 10.0, 12.0}});   // +20 %
}

}  // namespace

TEST_SUITE("published") {
  TEST_CASE("errors are relative to what was measured") {
    const PublishedScore score = four_rows();
    CHECK(score.errors.rows == 4);
    CHECK(score.errors.mape == doctest::Approx(0.125));   // (10 + 20 + 0 + 20) / 4
    CHECK(score.errors.median == doctest::Approx(0.15));  // of 0, 10, 20, 20
    CHECK(score.errors.bias == doctest::Approx(0.05));    // of -20, 0, 10, 20
    CHECK(score.rows[score.worst].what == "b");           // the first of -20 % and +20 %
  }

  TEST_CASE("groups are scored by themselves, rows of no group are in none") {
    const PublishedScore score = four_rows();
    REQUIRE(score.groups.size() == 2);
    CHECK(score.groups[0].first == "g");
    CHECK(score.groups[0].second.rows == 2);
    CHECK(score.groups[0].second.mape == doctest::Approx(0.05));
    CHECK(score.groups[1].second.mape == doctest::Approx(0.2));
  }

  TEST_CASE("as CSV: a line per block, a line per row") {
    const std::vector<PublishedScore> scores{four_rows()};
    CHECK(blocks_csv(scores) ==
          "block,rows,mape,median,bias,worst_row,worst_error,fitted,published\n"
          "by_hand,4,0.1250,0.1500,0.0500,b,-0.2000,nothing,theirs: 5 %\n");
    CHECK(rows_csv(scores) ==
          "block,group,row,measured,simulated,error\n"
          "by_hand,g,a,100,110,0.1000\n"
          "by_hand,h,b,100,80,-0.2000\n"
          "by_hand,g,c,50,50,0.0000\n"
          "by_hand,,d,10,12,0.2000\n");
  }

  TEST_CASE("every block and every fit says what it is, and leaves out data that are not there") {
    const TemporaryFolder empty;
    std::set<std::string_view> names;
    for (const PublishedBlock& block : published_blocks()) {
      CAPTURE(block.name);
      CHECK(names.insert(block.name).second);
      CHECK_FALSE(block.summary.empty());
      CHECK_FALSE(block.fitted.empty());
      CHECK_FALSE(block.compare(empty.file("")).has_value());
    }
    for (const FitEntry& entry : fits()) {
      CAPTURE(entry.name);
      CHECK(names.insert(entry.name).second);
      CHECK_FALSE(entry.summary.empty());
      CHECK_THROWS_AS(entry.fit(empty.file("")), InputError);
    }
  }
}
