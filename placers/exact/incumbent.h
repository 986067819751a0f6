/// The best placement that a search by bounds has found, and what it knows of better ones.
#pragma once
#include <string_view>

#include "sim/problem/problem.h"

namespace baechi::exact {

struct Incumbent {
  static constexpr Duration unknown = Duration::max();

  Placement placement{};     ///< without devices: none yet
  Duration value = unknown;  ///< of the objective
  Duration bound{};          ///< no placement is below
  Duration start = unknown;  ///< value before the integer program
  bool finished = false;     ///< the integer program was solved to its end
  std::int64_t nodes = 0;    ///< of branch and bound

  bool known() const { return value != unknown; }
  /// 1 - bound / value; 0 if nothing is better.
  double gap() const;
  /// With the facts start_us, `value_fact`, bound_us, gap and nodes, and a line for people; `what`
  /// was searched ("split").
  Placement report(const char* value_fact, std::string_view what) &&;
};

}  // namespace baechi::exact
