#include <fmt/format.h>

#include "scenarios/report/gnuplot_script.h"
#include "scenarios/report/plots.h"

namespace baechi {

Plot design_plot(const std::string& name, std::span<const PlottedDesign> designs) {
  std::string visited, front, reference;
  for (const PlottedDesign& d : designs) {
    const std::string line = fmt::format("{:.9g} {:.9g}\n", d.area_mm2, d.samples_per_s);
    visited += line;
    if (d.on_front) front += line;
    if (d.reference) reference += line;
  }
  const auto block = [](std::string_view of, const std::string& lines) {
    return fmt::format("${} << EOD\n{}EOD\n", of, lines.empty() ? "NaN NaN\n" : lines);
  };
  const std::string body = fmt::format(
      "  set grid lc rgb '#dddddd'\n  set border 3\n  set tics nomirror\n  set yrange [0:]\n"
      "  set key outside right center vertical Left reverse samplen 2 font ',11'\n"
      "  set xlabel 'area, mm2'\n  set ylabel 'samples/s'\n"
      "  plot $visited using 1:2 with points pt 7 ps 0.4 lc rgb '#bbbbbb' title 'visited', \\\n"
      "    $front using 1:2 with linespoints pt 7 ps 0.8 lw 1.8 lc rgb '{}' title 'Pareto front', "
      "\\\n    $reference using 1:2 with points pt 9 ps 1.6 lc rgb '{}' title 'reference'\n",
      placer_colour(0), placer_colour(1));
  return {name, gnuplot_script(name,
                               block("visited", visited) + block("front", front) +
                                   block("reference", reference),
                               body, 420)};
}

}  // namespace baechi
