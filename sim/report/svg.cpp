#include "sim/report/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/text.h"

namespace baechi {
namespace {

constexpr double width = 900, left = 90, row = 30, bar = 22, top = 40;

struct Picture {
  double per_ns = 1.0;
  std::string text{};

  double x(TimePoint at) const {
    return left + per_ns * static_cast<double>(at.time_since_epoch().count());
  }
  void slice(double y, TimePoint start, TimePoint end, std::string_view colour,
             std::string_view name) {
    const double length = std::max(0.5, x(end) - x(start));
    text += fmt::format(
        "<g><title>{} {} to {}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.1f}\" fill=\"{}\" stroke=\"#fff\" stroke-width=\"0.5\"/>",
        escaped(name), to_text(start.time_since_epoch()), to_text(end.time_since_epoch()), x(start),
        y, length, bar, colour);
    if (length > 7.0 * static_cast<double>(name.size()))
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                          x(start) + length / 2, y + 15, escaped(name));
    text += "</g>\n";
  }
};

}  // namespace

std::string step_svg(const Problem& problem, const Timeline& timeline, std::string_view title,
                     Duration until) {
  const auto ns = static_cast<double>(std::max<std::int64_t>(1, until.count()));
  Picture picture{.per_ns = (width - left - 10) / ns};
  const auto y = [](DeviceId d, int part) {
    return top + row * static_cast<double>(2 * static_cast<int>(index(d)) + part);
  };
  for (const DeviceId d : problem.cluster.devices()) {
    picture.text += fmt::format("<text x=\"4\" y=\"{:.1f}\">{}</text>\n", y(d, 0) + 15,
                                escaped(problem.cluster.device(d).name));
    picture.text +=
        fmt::format("<text x=\"4\" y=\"{:.1f}\" fill=\"#777\">sends</text>\n", y(d, 1) + 15);
  }
  for (const Timeline::OpSlice& s : timeline.ops())
    picture.slice(y(s.device, 0), s.start, s.end, "#9ecae1", problem.graph.name(s.op));
  for (const Timeline::TransferSlice& s : timeline.transfers())
    picture.slice(
        y(s.src, 1), s.start, s.end, "#fdae6b",
        fmt::format("{} to {}", problem.graph.name(problem.graph.tensor(s.tensor).producer),
                    problem.cluster.device(s.dst).name));
  const double height = top + row * 2.0 * static_cast<double>(problem.cluster.num_devices()) + 24;
  for (int i = 0; i <= 4; ++i) {
    const Duration at{until.count() * i / 4};
    const double x = picture.x(TimePoint(at));
    picture.text += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ccc\" "
        "stroke-dasharray=\"2\"/><text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"{4}\" "
        "fill=\"#777\">{5}</text>\n",
        x, top - 6, height - 20, height - 6,
        i == 0   ? "start"
        : i == 4 ? "end"
                 : "middle",
        to_text(at));
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"4\" y=\"20\" font-size=\"14\">{2}</text>\n{3}</svg>\n",
      width, height, escaped(title), picture.text);
}

}  // namespace baechi
