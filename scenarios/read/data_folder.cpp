#include "scenarios/read/data_folder.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace baechi {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

/// The path of the program, or of the Python module, which is a library in Python's process.
fs::path our_file() {
  std::error_code none;
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&is_there), &found) != 0 &&
      std::string_view(found.dli_fname).ends_with(".so"))
    return fs::canonical(found.dli_fname, none);
  return fs::read_symlink("/proc/self/exe", none);
}

}  // namespace

std::string data_folder() {
  const char* const given = std::getenv("BAECHI_DATA");  // NOLINT(concurrency-mt-unsafe): read only
  if (given != nullptr && *given != '\0') return given;
  const fs::path base = our_file().parent_path();
  for (const fs::path& folder :
       {base / "../share/baechi-sim", base / "../..", base / "../baechi_data/share/baechi-sim"}) {
    if (is_there(folder / "scenarios/examples")) return folder.lexically_normal().string();
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
