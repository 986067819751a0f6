/// Common parts of the plots' gnuplot scripts: strings, units, looks of placers.
#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// A string as gnuplot reads it.
std::string gnuplot_literal(std::string_view text);

/// `body`, drawn once as SVG and once as PDF, behind `data`. `height`: pixels, 720 wide.
std::string gnuplot_script(const std::string& name, std::string_view data, std::string_view body,
                           int height);

/// "lc rgb ... pt ... dt ...": the colour, mark and dashes of the i-th placer. Colours are those of
/// Okabe and Ito (2008), which colour-blind people can tell apart; colour and mark together differ
/// for 56 placers. The page has the same.
std::string placer_look(std::size_t i);
/// The colour alone: "#0072b2".
std::string_view placer_colour(std::size_t i);

struct PlotUnit {
  double scale;
  std::string_view name;
};
PlotUnit time_unit(double most_ns);
PlotUnit size_unit(double most_bytes);

}  // namespace baechi
