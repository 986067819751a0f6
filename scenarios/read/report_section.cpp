#include <charconv>
#include <set>

#include "scenarios/read/section.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/tree.h"
#include "sim/options.h"
#include "sim/problem/engine_options.h"

namespace baechi {
namespace {

using Value = Options::Value;

ReportChoice report_options(Options& o) {
  ReportChoice report;
  report.placements =
      o.get("placements", report.placements, "keep every placement in results.sqlite");
  report.pictures = static_cast<std::size_t>(
      o.get("pictures", static_cast<std::int64_t>(report.pictures),
            "maximum number of steps that report.html draws; with more runs, a selection"));
  report.timelines = read_enum(o, "timelines", report.timelines,
                               "ID.PLACER.trace.json.gz of each point's fastest run, or of all");
  return report;
}

}  // namespace

ReportChoice read_report(const Value& section, Mistakes& mistakes) {
  ReportChoice report;
  mistakes.attempt([&] {
    report = read_section(section, "report", [](Options& o) { return report_options(o); });
  });
  return report;
}

std::vector<std::uint64_t> read_seeds(const Value& section, Mistakes& mistakes) {
  std::vector<std::uint64_t> seeds;
  std::set<std::uint64_t> known;
  const auto one = [&](const Value& v) {
    std::uint64_t seed = 0;
    const char* last = v.text.data() + v.text.size();
    const auto [end, ec] = std::from_chars(v.text.data(), last, seed);
    if (ec != std::errc{} || end != last || !v.children.empty() || v.text.empty())
      mistakes.add(fmt::format("{}seeds: '{}' is not a whole number >= 0", at(v.where),
                               v.children.empty() ? v.text : one_line(v)));
    else if (!known.insert(seed).second)
      mistakes.add(fmt::format("{}seeds: {} is listed twice", at(v.where), seed));
    else
      seeds.push_back(seed);
  };
  if (is_list(section)) {
    for (const auto& [key, v] : section.children) one(v);
  } else {
    one(section);
  }
  return seeds;
}

SectionKeys report_section_keys() {
  return {"report",
          "contents of the results",
          keys_of_reader([](Options& o) { report_options(o); }),
          {}};
}

}  // namespace baechi
