/// A validation for people and for programs: tables, CSV and a page.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "validate/score.h"

namespace baechi::validate {

/// Accuracy targets of this project (validate/README.md).
struct Target {
  std::string what;
  double wanted = 0.0;
  std::optional<double> found{};  ///< nothing: not measured
  bool at_least = false;          ///< else at most
  bool met() const { return found && (at_least ? *found >= wanted : *found <= wanted); }
};
std::vector<Target> targets(const Validation& validation);

std::string to_text(const Validation& validation);  ///< tables for a terminal
/// layer,median_percent,p95_percent: the bounds of a recorded run's accuracy.
std::string accuracy_csv(const Validation& validation);
std::string scores_csv(const Validation& validation);  ///< a line per plan
std::string to_html(const Validation& validation);     ///< a page that needs nothing else

}  // namespace baechi::validate
