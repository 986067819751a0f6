#include "placers/search/trace.h"

#include <fmt/format.h>

#include "sim/file_aside.h"

namespace baechi::search {

void write_search_trace(const std::string& path, const std::vector<SearchStep>& steps) {
  std::string text = "evaluation,objective_us,feasible,by\n";
  for (const SearchStep& s : steps)
    text += fmt::format("{},{}.{:03},{},{}\n", s.evaluation, s.score.value.count() / 1000,
                        s.score.value.count() % 1000, s.score.feasible() ? 1 : 0, s.by);
  write_aside(path, text);
}

}  // namespace baechi::search
