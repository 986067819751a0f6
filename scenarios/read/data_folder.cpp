#include "scenarios/read/data_folder.h"

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

namespace baechi {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

}  // namespace

std::string data_folder() {
  const char* const given = std::getenv("BAECHI_DATA");  // NOLINT(concurrency-mt-unsafe): read only
  if (given != nullptr && *given != '\0') return given;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  const fs::path above = program.parent_path().parent_path();
  for (const fs::path& folder : {above / "share/baechi-sim", above.parent_path()}) {
    if (is_there(folder / "scenarios/examples")) return folder.string();
  }
  return "";
}

std::string with_data_folder(const std::string& path) {
  if (path.empty() || is_there(path)) return path;
  const std::string folder = data_folder();
  if (folder.empty() || path.starts_with('/')) return path;
  if (const fs::path there = fs::path(folder) / path; is_there(there)) return there.string();
  const fs::path example = fs::path(folder) / "scenarios/examples" / (path + ".yaml");
  return is_there(example) ? example.string() : path;
}

}  // namespace baechi
