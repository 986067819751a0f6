/// Draws plots with gnuplot, which must be installed.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "scenarios/report/plots.h"
#include "sim/watch.h"

namespace baechi {

/// The path of gnuplot, found in the folders of PATH. Throws InputError, which begins with
/// `what_for`, if none has it.
std::string installed_gnuplot(std::string_view what_for);

/// `pdf` with a date of creation that is always the same, so that equal plots are equal files.
std::string without_date(std::string pdf);

/// Writes NAME.gp, NAME.svg and NAME.pdf of each plot to `folder`: makes them in `folder`.part, in
/// one process, then renames them. Names must differ. `watch` counts the plots.
void draw_plots(const std::string& folder, std::span<const Plot> plots, const std::string& gnuplot,
                const Watch& watch = {});

}  // namespace baechi
