#include "sim/names.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "placers/adjust.h"
#include "placers/interface/placer.h"
#include "placers/original/original.h"
#include "scenarios/published/paper.h"
#include "scenarios/read/scenario.h"
#include "scenarios/read/sections.h"
#include "scenarios/results/results.h"
#include "sim/graph/op_graph.h"
#include "sim/options.h"
#include "sim/problem/engine_options.h"
#include "tests/message.h"
#include "traces/generate/expand.h"
#include "traces/import/pytorch/training_state.h"
#include "validate/export.h"
#include "validate/run_files.h"
#include "validate/score.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::validate;

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

TEST_SUITE("names") {
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
    CHECK(message<InputError>([&] { wrong.finish(); }) ==
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
}
