#include "sim/text.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "placers/adjust.h"
#include "placers/original/original.h"
#include "scenarios/published/paper.h"
#include "scenarios/read/sections.h"
#include "sim/csv_table.h"
#include "sim/random.h"
#include "tests/prelude.h"
#include "traces/generate/expand.h"
#include "traces/import/pytorch/training_state.h"
#include "validate/score.h"

using namespace baechi::validate;

TEST_SUITE_BEGIN("short text");
TEST_CASE("texts of any size differ where one byte does, and so do their hashes") {
  for (std::size_t size = 0; size <= 40; ++size) {  // bytes, halves of words, words
    CAPTURE(size);
    const std::string text(size, 'a');
    CHECK(same_text(text, std::string(size, 'a')));
    CHECK_FALSE(same_text(text, text + 'a'));
    CHECK(hash_of_text(text) == hash_of_text(std::string(size, 'a')));
    CHECK(hash_of_text(text) != hash_of_text(text + 'a'));
    for (std::size_t i = 0; i < size; ++i) {
      std::string other = text;
      other[i] = 'b';
      CHECK_FALSE(same_text(text, other));
      CHECK(hash_of_text(text) != hash_of_text(other));
    }
  }
}

TEST_CASE("both halves of a hash tell names apart that differ in one byte") {
  // A table takes its place from the low half and a mark from the high half. Ten digits in any
  // byte of a name are ten marks, and 16 places hold at least three of them.
  for (std::size_t i = 0; i < 12; ++i) {
    CAPTURE(i);
    std::uint64_t places = 0;
    std::vector<std::uint64_t> marks;
    for (char digit = '0'; digit <= '9'; ++digit) {
      std::string name = "layer12.conv";
      name[i] = digit;
      const std::uint64_t hash = hash_of_text(name);
      places |= std::uint64_t{1} << (hash % 16);
      marks.push_back(hash >> 32U);
    }
    std::ranges::sort(marks);
    CHECK(std::ranges::adjacent_find(marks) == marks.end());
    CHECK(std::popcount(places) >= 3);
  }
}

namespace {

enum class Side : std::uint8_t { left, right };
constexpr auto names_of(Side) {
  return std::to_array<Named<Side>>({{Side::left, "left"}, {Side::right, "right"}});
}

/// Every value has a unique word that parses back to it.
template <NamedEnum E>
void check_round_trip() {
  std::set<std::string_view> seen;
  for (const E value : all<E>()) {
    CAPTURE(to_text(value));
    CHECK(parse<E>(to_text(value)) == value);
    CHECK(seen.insert(to_text(value)).second);
  }
  CHECK(seen.size() == all_words<E>().size());
  CHECK_FALSE(parse<E>(""));
  CHECK_FALSE(parse<E>("no such word"));
}

template <NamedEnum... E>
void check_round_trips() {
  (check_round_trip<E>(), ...);
}

}  // namespace

TEST_SUITE_BEGIN("names");
TEST_CASE("a value becomes its word, and the word its value, for every enum with words") {
  check_round_trips<Side, Phase, Semantics, Transfers, ReadyOrder>();
  check_round_trips<Variant, AdjustPolicy, original::Algorithm>();
  check_round_trips<generate::Level, generate::Optimizer, pytorch::Colocate>();
  check_round_trips<Status, Timelines, Metric>();
  check_round_trips<SubmitMode, Way, BodyKind, Bodies, Verdict, Layer>();
}

TEST_CASE("an option that names a value of an enum declares all its words and its fallback") {
  const auto given = [](std::string text) {
    return Options("x", {{"side", {.text = std::move(text), .where = "f.yaml:1:2"}}});
  };
  Options none;
  CHECK(read_enum(none, "side", Side::right, "") == Side::right);
  CHECK(none.declared()[0].fallback == "right");
  CHECK(none.declared()[0].allowed == std::vector<std::string>{"right", "left"});
  Options chosen = given("left");
  CHECK(read_enum(chosen, "side", Side::right, "") == Side::left);

  Options wrong = given("lef");
  CHECK(read_enum(wrong, "side", Side::right, "") == Side::right);
  CHECK_REFUSED(wrong.finish(),
                "f.yaml:1:2: x.side: 'lef' is not one of right, left (did you mean 'left'?)");
}

TEST_CASE("a calibration is selected by the words of the replayed plans") {
  const auto allowed = [](std::string_view key) {
    for (const SectionKeys& section : section_keys())
      for (const Options::Declared& option : section.keys)
        if (section.section == "calibration" && option.key == key) return option.allowed;
    return std::vector<std::string>{};
  };
  REQUIRE_FALSE(allowed("mode").empty());
  for (const std::string& mode : allowed("mode")) CHECK(parse<SubmitMode>(mode));
  REQUIRE(allowed("way").size() == all<Way>().size());
  for (const std::string& way : allowed("way")) CHECK(parse<Way>(way));
}

TEST_CASE("an option may have a word for no value, its default") {
  Options none;
  CHECK_FALSE(read_enum_unless<Side>(none, "side", "neither", ""));
  CHECK(none.declared()[0].fallback == "neither");
  CHECK(none.declared()[0].allowed == std::vector<std::string>{"neither", "left", "right"});
  Options left("x", {{"side", {.text = "left", .where = {}}}});
  CHECK(read_enum_unless<Side>(left, "side", "neither", "") == Side::left);
}

TEST_SUITE_BEGIN("error");
TEST_CASE("A failed check names its file from the root of the sources, and aborts") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t failing = fork();
  REQUIRE(failing >= 0);
  if (failing == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    const int apples = 2;
    BAECHI_CHECK(apples == 3, "{} apples", apples);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char letter = 0;
  while (read(ends[0], &letter, 1) == 1) said += letter;
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(failing, &status, 0) == failing);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(said.starts_with("tests/sim/text_test.cpp:"));
  CHECK(said.ends_with(": check failed: apples == 3: 2 apples\n"));
}

TEST_CASE("Mistakes are kept once each, in the order of path, line and column") {
  Mistakes mistakes;
  mistakes.add("b.yaml:1:1: x\na.yaml:10:2: y\n  more of y\na.yaml:9:3: z");
  mistakes.add("a.yaml:9:3: z");  // again, from the next point of a sweep
  mistakes.add("no place");
  CHECK(mistakes.size() == 4);
  mistakes.sort_by_place();
  CHECK_REFUSED(mistakes.throw_if_any(),
                "no place\na.yaml:9:3: z\na.yaml:10:2: y\n  more of y\nb.yaml:1:1: x");
}

TEST_CASE("A number outside the bounds of an option is a mistake that states the bounds") {
  Options o("part", {{"five", {.text = "5", .where = {}}},
                     {"six", {.text = "6", .where = {}}},
                     {"high", {.text = "2.5", .where = "x.yaml:1:2"}}});
  CHECK(o.get("five", std::int64_t{1}, "", 1, 5) == 5);
  CHECK(o.get("six", std::int64_t{1}, "", 1, 5) == 1);
  CHECK(o.get("high", 0.5, "", 0.0, 2.0) == 0.5);
  CHECK_REFUSED(o.finish(),
                "part.six: '6' is not a whole number from 1 to 5\n"
                "x.yaml:1:2: part.high: '2.5' is not a number from 0 to 2");
}

TEST_SUITE_BEGIN("csv_table");
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
  CHECK_REFUSED(read(""), "t.csv:1:1: no line that names the columns");
  CHECK_REFUSED(read("a,b\n1\n1,2\n1,2,3\n"),
                "t.csv:2:1: 1 values, not 2 as in the header\n"
                "t.csv:4:1: 3 values, not 2 as in the header");
  const CsvTable table("ranks,us\nfour,-1\n", "t.csv");
  CHECK_REFUSED((void)table.column("rank"),
                "t.csv:1:1: no column 'rank' (did you mean 'ranks'?) (columns: ranks, us)");
  CHECK_REFUSED((void)table.whole(0, 0),
                "t.csv:2:1: ranks 'four' is not a whole number of at least 0");
  CHECK_REFUSED((void)table.number(0, 1), "t.csv:2:6: us '-1' is not a number of at least 0");
}

namespace {

/// FNV-1a of the eight bytes of `n`, the lowest first, one after the other.
std::uint64_t byte_by_byte(std::int64_t n) {
  std::uint64_t state = 0xcbf29ce484222325U;
  for (unsigned i = 0; i < 8; ++i)
    state = (state ^ (static_cast<std::uint64_t>(n) >> (8 * i) & 0xffU)) * 0x100000001b3U;
  return state;
}

std::uint64_t hash_of(auto value) {
  Hash hash;
  hash.add(value);
  return hash.value();
}

}  // namespace

TEST_SUITE_BEGIN("hash");
TEST_CASE("a number's hash is that of its eight bytes, however many are zero") {
  constexpr std::int64_t one = 1;
  for (const std::int64_t n : {0 * one, one, 255 * one, 256 * one, 0xff00 * one, one << 32,
                               (one << 56) + 3, -one, std::numeric_limits<std::int64_t>::min()})
    CHECK(hash_of(n) == byte_by_byte(n));
  CHECK(hash_of(1.5) == byte_by_byte(0x3ff8000000000000));  // its bits
}

TEST_CASE("a text's hash is FNV-1a of its bytes and of its end") {
  // FNV-1a of "a" is 0xaf63dc4c8601ec8c; the end is a byte more, 0, which multiplies.
  CHECK(hash_of(std::string_view("a")) == 0xaf63dc4c8601ec8cU * 0x100000001b3U);
  // "a" and six zero bytes, with its end, are the eight bytes of the number 'a'.
  constexpr char seven[] = {'a', 0, 0, 0, 0, 0, 0};
  CHECK(hash_of(std::string_view(seven, 7)) == hash_of(std::int64_t{'a'}));
}
