#include "sim/csv_table.h"

#include <doctest/doctest.h>

#include "sim/error.h"

using namespace baechi;

TEST_SUITE("csv_table") {
  TEST_CASE("fields by the names of their columns, quoted or not") {
    const CsvTable table("a,b,c\n1,x,2.5\n\n2,\"y, \"\"z\"\"\",-1\r\n", "t.csv");
    REQUIRE(table.num_rows() == 2);
    CHECK(table.whole(0, table.column("a")) == 1);
    CHECK(table.text(1, table.column("b")) == "y, \"z\"");
    CHECK(table.number(0, table.column("c")) == 2.5);
    CHECK(table.where(1, 2) == "t.csv:4:14");
  }

  TEST_CASE("of two columns with one name, the first is used") {
    const CsvTable table("t,u,t\n1,2,3\n", "t.csv");
    CHECK(table.column("t") == 0);
  }

  TEST_CASE("errors name their place") {
    const auto read = [](std::string_view text) { CsvTable(text, "t.csv"); };
    CHECK_THROWS_WITH_AS(read(""), "t.csv:1:1: no line that names the columns", InputError);
    CHECK_THROWS_WITH_AS(read("a,b\n1\n1,2\n1,2,3\n"),
                         "t.csv:2:1: 1 values, not 2 as in the header\n"
                         "t.csv:4:1: 3 values, not 2 as in the header",
                         InputError);
    const CsvTable table("ranks,us\nfour,-1\n", "t.csv");
    CHECK_THROWS_WITH_AS((void)table.column("rank"),
                         "t.csv:1:1: no column 'rank' (did you mean 'ranks'?) (columns: ranks, us)",
                         InputError);
    CHECK_THROWS_WITH_AS((void)table.whole(0, 0),
                         "t.csv:2:1: ranks 'four' is not a whole number of at least 0", InputError);
    CHECK_THROWS_WITH_AS((void)table.number(0, 1),
                         "t.csv:2:6: us '-1' is not a number of at least 0", InputError);
  }
}
