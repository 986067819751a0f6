#include "validate/published/published.h"

#include <doctest/doctest.h>

#include <set>

#include "sim/error.h"
#include "tests/shared_data.h"
#include "tests/temporary_folder.h"
#include "validate/fit/fit.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

namespace {

constexpr PublishedBlock by_hand{.name = "by_hand",
                                 .summary = "four rows",
                                 .fitted = "nothing",
                                 .baseline = "one rate",
                                 .published = "theirs: 5 %",
                                 .compare = nullptr};

PublishedScore four_rows() {
  return score_of(by_hand, {.rows = {{"a", "g", 100.0, 110.0, 10.0, "m"},  // +10 %
                                     {"b", "h", 100.0, 80.0, 20.0, "m"},   // -20 %
                                     {"c", "g", 50.0, 50.0, 10.0, "n"},    // 0
                                     {"d", "", 10.0, 12.0}}});             // +20 %
}

}  // namespace

TEST_SUITE("published") {
  TEST_CASE("errors are relative to what was measured") {
    const PublishedScore score = four_rows();
    CHECK(score.errors.rows == 4);
    CHECK(score.errors.mean == doctest::Approx(0.125));   // (10 + 20 + 0 + 20) / 4
    CHECK(score.errors.median == doctest::Approx(0.15));  // of 0, 10, 20, 20
    CHECK(score.errors.bias == doctest::Approx(0.05));    // of -20, 0, 10, 20
    CHECK(score.rows[score.worst].what == "b");           // the first of -20 % and +20 %
    CHECK(score.errors.worst == doctest::Approx(-0.2));
    CHECK_FALSE(score.errors.log_mean);  // no sizes
  }

  TEST_CASE("the baseline is one rate for rows alike, the median of theirs") {
    // m: 100 / 10 and 100 / 20, median 7.5: it says 75 and 150 of 100. n knows its one row.
    const PublishedScore score = four_rows();
    CHECK(score.baseline.rows == 3);  // d has no work
    CHECK(score.baseline.mean == doctest::Approx((0.25 + 0.5 + 0.0) / 3));
  }

  TEST_CASE("each doubling of the size counts alike in a mean over sizes") {
    // 1 to 2 bytes: 30 %; 4 to 8: 0, 0 and 0; another group's 4 to 8: 60 %.
    const auto row = [](const char* group, double size, double simulated) {
      return PublishedRow{.group = group, .measured = 10.0, .simulated = simulated, .size = size};
    };
    const PublishedErrors errors = errors_of(std::vector{
        row("g", 1, 13), row("g", 4, 10), row("g", 5, 10), row("g", 7, 10), row("h", 4, 16)});
    CHECK(errors.mean == doctest::Approx(0.9 / 5));
    REQUIRE(errors.log_mean);
    CHECK(*errors.log_mean == doctest::Approx(0.9 / 3));
  }

  TEST_CASE("a row without a measured value is skipped") {
    const PublishedScore score =
        score_of(by_hand, {.rows = {{.what = "a", .measured = 0.0, .simulated = 1.0}}});
    CHECK(score.rows.empty());
    REQUIRE(score.left.skipped.size() == 1);
    CHECK(score.left.skipped[0].why == "a: measured 0, simulated 1");
  }

  TEST_CASE("groups are scored by themselves, rows of no group are in none") {
    const PublishedScore score = four_rows();
    REQUIRE(score.groups.size() == 2);
    CHECK(score.groups[0].first == "g");
    CHECK(score.groups[0].second.rows == 2);
    CHECK(score.groups[0].second.mean == doctest::Approx(0.05));
    CHECK(score.groups[1].second.mean == doctest::Approx(0.2));
  }

  TEST_CASE("as CSV: a line per block, a line per row") {
    const std::vector<PublishedScore> scores{four_rows()};
    CHECK(blocks_csv(scores) ==
          "block,rows,skipped,mean,median,log_mean,bias,baseline,worst_row,worst_error,fitted,"
          "published\n"
          "by_hand,4,0,0.1250,0.1500,,0.0500,0.2500,b,-0.2000,nothing,theirs: 5 %\n");
    CHECK(rows_csv(scores) ==
          "block,group,row,measured,simulated,error,baseline\n"
          "by_hand,g,a,100,110,0.1000,75\n"
          "by_hand,h,b,100,80,-0.2000,150\n"
          "by_hand,g,c,50,50,0.0000,50\n"
          "by_hand,,d,10,12,0.2000,\n");
  }

  TEST_CASE("every block and every fit says what it is, and leaves out data that are not there") {
    const TemporaryFolder empty;
    std::set<std::string_view> names;
    for (const PublishedBlock& block : published_blocks()) {
      CAPTURE(block.name);
      CHECK(names.insert(block.name).second);
      CHECK_FALSE(block.summary.empty());
      CHECK_FALSE(block.fitted.empty());
      CHECK_FALSE(block.baseline.empty());
      CHECK_FALSE(block.compare(empty.file("")).has_value());
    }
    for (const PublishedBlock& block : published_blocks())
      for (const FittedFile& file : block.files) {
        CAPTURE(file.path);
        CHECK(checksum_of(published_data().string(), file.path) == file.checksum);
      }
    names.clear();  // a fit may have the name of the block that it is for
    for (const FitEntry& entry : fits()) {
      CAPTURE(entry.name);
      CHECK(names.insert(entry.name).second);
      CHECK_FALSE(entry.summary.empty());
      CHECK_THROWS_AS(entry.fit(empty.file(""), {}), InputError);
    }
  }
}
