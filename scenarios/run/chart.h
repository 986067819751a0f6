/// Line charts as SVG text, coloured by the classes s0 ... s9 of the page they stand in.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace baechi {

inline constexpr std::size_t chart_colours = 10;

struct Chart {
  std::string title;  ///< above; "" for none
  std::string x_name;
  std::vector<std::string> x;  ///< what stands below each position
  struct Line {
    std::string name;
    std::size_t colour = 0;                ///< s0 ... s9; chart_colours: grey and dashed
    std::vector<std::optional<double>> y;  ///< [x], seconds; nothing: a gap
    std::vector<std::string> notes;        ///< [x], shown when pointed at
  };
  std::vector<Line> lines;
};

/// y from 0, in a unit that suits. x in proportion if all are ascending numbers, else evenly
/// spaced.
std::string to_svg(const Chart& chart);

/// `text` with what HTML would read as its own replaced.
std::string escaped(std::string_view text);

}  // namespace baechi
