/// libFuzzer target: bytes as a scenario file. An accepted scenario must be consistent.

#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "tests/fuzz/written.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  testing::accepts_or_refuses(data, size, [](const std::string& text) {
    const std::string line = one_line(parse_yaml(text, "fuzz"));
    BAECHI_CHECK(one_line(parse_yaml(line, "again")) == line, "{}", line);
  });
  return testing::accepts_or_refuses(data, size, [](const std::string& text) {
    Mistakes mistakes;
    const ScenarioFile file = parse_scenario(text, "fuzz.yaml", {}, mistakes);
    mistakes.throw_if_any();
    for (std::size_t i = 0; i < std::min<std::size_t>(file.num_points(), 10); ++i) {
      const Scenario point = file.point(i);
      BAECHI_CHECK(point.at.size() == file.axes.size(), "{} of {}", point.at.size(),
                   file.axes.size());
      BAECHI_CHECK(make_cluster(point.cluster).num_devices() > 0, "point {}", i);
    }
  });
}
