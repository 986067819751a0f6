#include "placers/search/trace.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace baechi::search {

void write_search_trace(const std::string& path, const std::vector<SearchStep>& steps) {
  std::string text = "evaluation,objective_us,feasible,by\n";
  for (const SearchStep& s : steps)
    text += fmt::format("{},{}.{:03},{},{}\n", s.evaluation, s.score.value.count() / 1000,
                        s.score.value.count() % 1000, s.score.feasible() ? 1 : 0, s.by);
  const std::string aside = path + ".part";
  std::ofstream file(aside, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", aside));
  std::filesystem::rename(aside, path);
}

}  // namespace baechi::search
