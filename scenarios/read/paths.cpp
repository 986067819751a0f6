#include "scenarios/read/paths.h"

#include <dlfcn.h>

#include <filesystem>

#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_names = 100'000;

/// Collects files below `folder` that match the parts of the pattern from `part` on, as `written` +
/// the rest.
struct Search {
  std::string where;
  std::vector<std::string> parts{};
  std::vector<std::string> found{};
  std::size_t names = 0;

  void look(const fs::path& folder, const std::string& written, std::size_t part) {
    const bool last = part + 1 == parts.size();
    if (!is_pattern(parts[part])) {
      enter(folder / parts[part], written + parts[part], part, last);
      return;
    }
    std::error_code ec;
    for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, ec), end;
         !ec && it != end; it.increment(ec)) {
      if (++names > most_names)
        throw InputError(
            fmt::format("{}'{}': more than {} names to check", at(where), written, most_names));
      const std::string name = it->path().filename().string();
      if (!name.starts_with('.') && Wildcard{parts[part]}.matches(name))
        enter(it->path(), written + name, part, last);
    }
  }
  void enter(const fs::path& path, const std::string& written, std::size_t part, bool last) {
    std::error_code ec;
    if (!last && fs::is_directory(path, ec)) look(path, written + "/", part + 1);
    if (last && fs::is_regular_file(path, ec)) found.push_back(written);
  }
};

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

std::string resolve_path(const Options::Value& value, const std::string& base) {
  std::string_view text = value.text;
  std::string expanded;
  while (true) {
    const std::size_t begin = text.find("${");
    const std::size_t end = begin == std::string_view::npos ? begin : text.find('}', begin);
    if (end == std::string_view::npos) break;
    const std::string name(text.substr(begin + 2, end - begin - 2));
    const char* variable = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): read only
    if (variable == nullptr)
      throw InputError(
          fmt::format("{}'{}': the environment has no {}", at(value.where), value.text, name));
    expanded.append(text.substr(0, begin)).append(variable);
    text.remove_prefix(end + 1);
  }
  expanded.append(text);
  if (base.empty()) return expanded;
  const fs::path path(expanded);
  return path.is_absolute() ? expanded : (fs::path(base) / path).string();
}

bool is_file(const std::string& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

bool is_pattern(std::string_view text) {
  return text.find_first_of("*?") != std::string_view::npos;
}

std::vector<std::string> matching_files(const Options::Value& pattern, const std::string& base) {
  const std::string& text = pattern.text;
  const std::size_t slash = text.rfind('/', text.find_first_of("*?"));
  const std::string written = slash == std::string::npos ? "" : text.substr(0, slash + 1);
  Search search{.where = pattern.where};
  for (std::size_t begin = written.size(); begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    search.parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::string folder =
      resolve_path({.text = written, .where = pattern.where, .children = {}}, base);
  search.look(folder.empty() ? "." : folder, written, 0);
  if (search.found.empty())
    throw InputError(fmt::format("{}no file matches '{}'", at(pattern.where), text));
  std::ranges::sort(search.found);
  return search.found;
}

std::string read_small_file(const std::string& path, std::size_t most, std::string_view wanted) {
  std::error_code ec;
  if (!fs::exists(path, ec)) throw InputError(fmt::format("{}: no such file", path));
  TextFile file(path, Content::any);
  if (!wanted.empty()) require_kind(file, wanted);
  file.require_text();
  return file.rest(most);
}

std::string plain_file_name(std::string_view text) {
  std::string name(text.substr(0, 120));
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && std::string_view("_-=.,").find(c) == std::string_view::npos) c = '_';
  }
  return name;
}

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
