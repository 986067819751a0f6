#include "scenarios/run/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace baechi {
namespace {

constexpr double width = 460, height = 260, left = 58, right = 28, top = 24, bottom = 42;

/// The positions in [0, 1].
std::vector<double> x_positions(const std::vector<std::string>& x) {
  std::vector<double> at;
  bool ascending = x.size() > 1;
  for (const std::string& text : x) {
    double v = 0.0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), v);
    ascending = ascending && ec == std::errc{} && end == text.data() + text.size() &&
                std::isfinite(v) && (at.empty() || v > at.back());
    at.push_back(v);
  }
  if (ascending) {
    const double first = at.front(), span = at.back() - at.front();
    for (double& v : at) v = (v - first) / span;
  } else {
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = at.size() == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(at.size() - 1);
  }
  return at;
}

/// The least of 1, 2, 5 x 10^k that goes into `most` at most five times.
double tick(double most) {
  const double power = std::pow(10.0, std::floor(std::log10(most / 5.0)));
  for (const double step : {1.0, 2.0, 5.0})
    if (most / (step * power) <= 5.0) return step * power;
  return 10.0 * power;
}

std::string number(double v) {
  return fmt::format("{:.1f}", v);
}

void append_line(std::string& out, const Chart::Line& line, const std::vector<double>& xs,
                 auto y_of) {
  const std::string colour =
      line.colour == chart_colours ? "bound" : fmt::format("s{}", line.colour);
  std::string path, points;
  bool pen_down = false;
  for (std::size_t i = 0; i < line.y.size(); ++i) {
    const std::optional<double>& value = line.y[i];
    if (!value) {
      pen_down = false;
      continue;
    }
    const std::string x = number(xs[i]), y = number(y_of(*value));
    path += fmt::format("{}{} {}", pen_down ? "L" : "M", x, y);
    pen_down = true;
    if (line.colour != chart_colours)
      points += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\"><title>{}</title></circle>", x, y,
                            escaped(line.notes[i]));
  }
  out += fmt::format("<g class=\"{}\"><path d=\"{}\"/>{}</g>\n", colour, path, points);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string to_svg(const Chart& chart) {
  double most = 0.0;
  for (const Chart::Line& line : chart.lines)
    for (const auto& y : line.y) most = std::max(most, y.value_or(0.0));
  if (!(most > 0.0)) return "";
  double unit = 1e-9;
  std::string_view unit_name = "ns";
  for (const auto& [size, name] :
       {std::pair{1e-6, "us"}, std::pair{1e-3, "ms"}, std::pair{1.0, "s"}}) {
    if (most < size) break;
    unit = size;
    unit_name = name;
  }
  const double step = tick(most / unit);
  const double ceiling = std::ceil(most / unit / step) * step;
  const auto y_of = [&](double seconds) {
    return height - bottom - seconds / unit / ceiling * (height - top - bottom);
  };
  std::vector<double> xs = x_positions(chart.x);
  for (double& x : xs) x = left + x * (width - left - right);

  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title>\n",
                                width, height, escaped(chart.title));
  out +=
      fmt::format("<text class=\"head\" x=\"{}\" y=\"14\">{}</text>\n", left, escaped(chart.title));
  for (int i = 0; i * step <= ceiling * (1.0 + 1e-9); ++i) {
    const double y = y_of(i * step * unit);
    out += fmt::format(
        "<path class=\"grid\" d=\"M{} {}H{}\"/><text class=\"y\" x=\"{}\" y=\"{}\">{:g} "
        "{}</text>\n",
        left, number(y), width - right, left - 6, number(y + 4), i * step, unit_name);
  }
  const std::size_t every = (chart.x.size() + 10) / 11;  // labels that do not run into each other
  for (std::size_t i = 0; i < chart.x.size(); i += every)
    out += fmt::format("<text class=\"x\" x=\"{}\" y=\"{}\">{}</text>\n", number(xs[i]),
                       height - bottom + 16, escaped(chart.x[i]));
  out += fmt::format("<text class=\"x\" x=\"{}\" y=\"{}\">{}</text>\n", (left + width - right) / 2,
                     height - 6, escaped(chart.x_name));
  for (const Chart::Line& line : chart.lines) append_line(out, line, xs, y_of);
  return out + "</svg>\n";
}

}  // namespace baechi
