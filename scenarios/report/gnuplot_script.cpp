#include "scenarios/report/gnuplot_script.h"

#include <fmt/format.h>

#include <array>

namespace baechi {

std::string gnuplot_literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += c == '\n' ? ' ' : c;
  }
  return out + '\'';
}

/// `body`, drawn once as SVG and once as PDF, behind `data`.
std::string gnuplot_script(const std::string& name, std::string_view data, std::string_view body,
                           int height) {
  return fmt::format(
      "# gnuplot {0}.gp makes {0}.svg and {0}.pdf\n"
      "set encoding utf8\n{1}"
      "do for [kind in \"svg pdf\"] {{\n"
      "  if (kind eq \"svg\") {{\n"
      "    set terminal svg size 720,{3} dynamic background rgb 'white' font 'sans,13' noenhanced\n"
      "  }} else {{\n"
      "    set terminal pdfcairo size 14cm,{4:.2f}cm font 'sans,9' noenhanced\n"
      "  }}\n"
      "  set output {5} . kind\n"
      "{2}"
      "  unset output\n"
      "}}\n",
      name, data, body, height, 14.0 * height / 720.0, gnuplot_literal(name + "."));
}

std::string_view placer_colour(std::size_t i) {
  constexpr std::array<std::string_view, 8> colours{"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                                    "#cc79a7", "#56b4e9", "#777777", "#a89f00"};
  return colours[i % colours.size()];
}

std::string placer_look(std::size_t i) {
  // Circle, square, triangle, diamond, triangle on its tip, open circle, open square.
  constexpr std::array marks{7, 5, 9, 13, 11, 6, 4};
  return fmt::format("lc rgb '{}' pt {} dt {}", placer_colour(i), marks[i % marks.size()],
                     i / 8 % 4 + 1);
}

PlotUnit time_unit(double most_ns) {
  if (most_ns >= 1e9) return {1e9, "s"};
  if (most_ns >= 1e6) return {1e6, "ms"};
  return most_ns >= 1e3 ? PlotUnit{1e3, "us"} : PlotUnit{1.0, "ns"};
}
PlotUnit size_unit(double most_bytes) {
  if (most_bytes >= 1024.0 * 1024.0 * 1024.0) return {1024.0 * 1024.0 * 1024.0, "GiB"};
  if (most_bytes >= 1024.0 * 1024.0) return {1024.0 * 1024.0, "MiB"};
  return most_bytes >= 1024.0 ? PlotUnit{1024.0, "KiB"} : PlotUnit{1.0, "B"};
}

}  // namespace baechi
