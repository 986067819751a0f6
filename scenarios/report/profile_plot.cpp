#include <fmt/format.h>

#include <algorithm>

#include "scenarios/report/gnuplot_script.h"
#include "scenarios/report/plots.h"

namespace baechi {

Plot profile_plot(const std::string& name, std::string_view what,
                  std::span<const Profile> profiles) {
  double most = 1.0;
  for (const Profile& profile : profiles)
    if (!profile.ratios.empty()) most = std::max(most, profile.ratios.back());
  const double end = std::max(1.1, 1.05 * most);
  std::string data, plots;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const Profile& profile = profiles[i];
    data += fmt::format("$p{} << EOD\n", i);
    data += profile.ratios.empty() ? "NaN NaN\n" : profile.ratios.front() > 1.0 ? "1 0\n" : "";
    for (std::size_t k = 0; k < profile.ratios.size(); ++k) {
      if (k + 1 < profile.ratios.size() && profile.ratios[k + 1] == profile.ratios[k]) continue;
      data += fmt::format("{:.9g} {:.6g}\n", profile.ratios[k], profile.share(k));
    }
    if (!profile.ratios.empty())
      data += fmt::format("{:.9g} {:.6g}\n", end, profile.share(profile.ratios.size() - 1));
    data += "EOD\n";
    plots += fmt::format(
        "$p{0} using 1:2 with steps {1} lw 1.8 notitle, \\\n    "
        "$p{0} using 1:2 every 4 with points {1} ps 0.6 notitle, \\\n    "
        "NaN with linespoints {1} lw 1.8 ps 0.8 title {2}, \\\n    ",
        i, placer_look(profile.number), gnuplot_literal(profile.placer));
  }
  std::string tics = "'1' 1";  // gnuplot's own are too few where all ratios are small
  for (double decade = 1.0; decade < end; decade *= 10.0)
    for (const double digit : {1.2, 1.5, 2.0, 3.0, 5.0, 10.0})
      if (decade * digit <= end && (end < 20.0 || digit == 10.0))
        tics += fmt::format(", '{0:g}' {0:g}", decade * digit);
  const std::string body = fmt::format(
      "  set grid lc rgb '#dddddd'\n  set border 3\n  set tics nomirror\n  set logscale x\n"
      "  set xtics ({})\n  set xrange [1:{:.6g}]\n  set yrange [0:1.02]\n"
      "  set key outside right center vertical Left reverse samplen 2 font ',11'\n"
      "  set xlabel {}\n  set ylabel 'share of points'\n  plot {}NaN notitle\n  unset logscale\n",
      tics, end, gnuplot_literal(fmt::format("{} over the least of all placers, at most", what)),
      plots);
  return {name, gnuplot_script(name, data, body, 420)};
}

}  // namespace baechi
