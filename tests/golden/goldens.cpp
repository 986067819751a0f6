#include "tests/golden/goldens.h"

#include <fstream>

#include "sim/error.h"

namespace baechi::golden {
namespace {

namespace fs = std::filesystem;

json read_json(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw InputError(fmt::format("{}: cannot be read", path.string()));
  try {
    return json::parse(in);
  } catch (const json::exception& e) {
    throw InputError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

/// The files of a folder with that extension, by name; none if there is no such folder.
std::vector<fs::path> files_in(const fs::path& folder, const char* extension = ".json") {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == extension) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// Does `check`, naming `file` in what it throws.
void naming(const std::string& file, const auto& check) {
  try {
    check();
  } catch (const InputError& e) {
    throw InputError(fmt::format("{}: {}", file, e.what()));
  } catch (const json::exception& e) {
    throw InputError(fmt::format("{}: {}", file, e.what()));
  } catch (const std::out_of_range& e) {
    throw InputError(fmt::format("{}: {}", file, e.what()));
  }
}

class Folder {
 public:
  Folder(const fs::path& root, Report& report) : root_(root), report_(report) {}

  void check() {
    units();
    results("small", "small", check_results);
    results("msr", "msr", check_results);
    fuzz();
    results("small_pytorch", "small", check_pytorch);
    if (files_ == 0)
      throw InputError(fmt::format("{}: no goldens here (results, fuzz, unit)", root_.string()));
  }

 private:
  std::string name(const fs::path& path) const {
    return fs::relative(path, root_).generic_string();
  }

  void each(const char* folder, const auto& check) {
    for (const fs::path& path : files_in(root_ / folder)) {
      ++files_;
      naming(name(path), [&] { check(path, read_json(path)); });
    }
  }

  void results(const std::string& part, const std::string& graphs, const auto& check) {
    each(("results/" + part).c_str(), [&](const fs::path& path, const json& results) {
      const fs::path graph = root_ / "graphs" / graphs / path.filename();
      if (fs::exists(graph)) return check(results, read_json(graph), name(path), report_);
      report_.skip("results of a graph that is absent",
                   results.contains("runs") ? results["runs"].size() : 1);
    });
  }

  void fuzz() {
    for (const fs::path& path : files_in(root_ / "fuzz", ".jsonl")) {
      ++files_;
      std::ifstream in(path);
      std::string line;
      for (std::size_t number = 1; std::getline(in, line); ++number) {
        if (line.empty()) continue;
        const std::string where = fmt::format("{}:{}", name(path), number);
        naming(where, [&] { check_fuzz(json::parse(line), where, report_); });
      }
    }
  }

  void units() {
    const auto find = [this](const std::string& path) {
      return fs::exists(root_ / path) ? read_json(root_ / path) : json();
    };
    each("unit", [&](const fs::path& path, const json& table) {
      check_unit(path.stem().string(), table, name(path), find, report_);
    });
  }

  const fs::path& root_;
  Report& report_;
  std::size_t files_ = 0;
};

}  // namespace

void check_folder(const fs::path& folder, Report& report) {
  if (!fs::is_directory(folder))
    throw InputError(fmt::format("{}: no such folder", folder.string()));
  Folder(folder, report).check();
}

}  // namespace baechi::golden
