#include "scenarios/studies/codesign/area_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "sim/csv_table.h"
#include "sim/error.h"
#include "sim/options.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

AreaTable table_of_csv(std::string_view text, const std::string& path) {
  const CsvTable csv(text, path);
  const std::size_t part = csv.column("part"), size = csv.column("size"),
                    area = csv.column("area_um2");
  AreaTable table;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::string& word = csv.text(row, part);
    const double value = csv.number(row, area);
    bool first = true;
    if (word == "buffer") {
      const auto bytes = parse_bytes(csv.text(row, size));
      if (!bytes)
        throw InputError(fmt::format("{}: '{}' is not a size such as '64 MiB'",
                                     csv.where(row, size), csv.text(row, size)));
      first = table.buffer.emplace(*bytes, value).second;
    } else if (word == "tensor_core") {
      first = table.tensor_core.emplace(csv.whole(row, size, 1), value).second;
    } else if (word == "vector_core") {
      first = table.vector_core.emplace(csv.whole(row, size, 1), value).second;
    } else {
      const std::vector<std::string> parts{"tensor_core", "vector_core", "buffer"};
      throw InputError(fmt::format("{}: {}", csv.where(row, part), not_one_of(word, parts)));
    }
    if (!first)
      throw InputError(fmt::format("{}: a {} of {} is listed twice", csv.where(row, size), word,
                                   csv.text(row, size)));
  }
  return table;
}

/// The entries with the fewest and the most cores, of entries that differ in this number alone.
struct Ends {
  std::int64_t few = std::numeric_limits<std::int64_t>::max(), many = 0;
  double least = 0.0, most = 0.0;

  void add(std::int64_t cores, double area) {
    if (cores < few) few = cores, least = area;
    if (cores > many) many = cores, most = area;
  }
  std::int64_t cores() const { return many - few; }
};

/// The area of a core for each key, from the entries with the most different numbers of cores.
class CoreAreas {
 public:
  void add(const Accelerator& rest, std::int64_t key, std::int64_t cores, double area) {
    ends_[{key, rest}].add(cores, area);
  }
  std::map<std::int64_t, double> areas() const {
    std::map<std::int64_t, std::pair<std::int64_t, double>> found;
    for (const auto& [key, ends] : ends_) {
      auto& [span, area] = found[key.first];
      if (ends.cores() <= span) continue;
      span = ends.cores();
      area = (ends.most - ends.least) / static_cast<double>(span);
    }
    std::map<std::int64_t, double> areas;
    for (const auto& [key, value] : found)
      if (value.first > 0) areas[key] = value.second;
    return areas;
  }

 private:
  std::map<std::pair<std::int64_t, Accelerator>, Ends> ends_;
};

/// An entry of PHAZE's list: an accelerator and its area in um2.
struct ListedAccelerator {
  Accelerator design;
  double area = 0.0;
};

AreaTable table_of_list(const std::vector<ListedAccelerator>& list, const std::string& path) {
  CoreAreas tensor, vector;
  for (const auto& [design, area] : list) {
    Accelerator rest = design;
    rest.tensor_cores = 0;
    tensor.add(rest, design.width * design.depth, design.tensor_cores, area);
    rest = design;
    rest.vector_cores = 0;
    vector.add(rest, design.width, design.vector_cores, area);
  }
  AreaTable table{.tensor_core = tensor.areas(), .vector_core = vector.areas()};
  // The entry of the smallest area has the smallest rounding error.
  std::map<Bytes, double> smallest;
  for (const auto& [design, area] : list) {
    const auto t = table.tensor_core.find(design.width * design.depth);
    const auto v = table.vector_core.find(design.width);
    if (t == table.tensor_core.end() || v == table.vector_core.end()) continue;
    const auto [it, first] = smallest.try_emplace(design.buffer, area);
    if (!first && area >= it->second) continue;
    it->second = area;
    table.buffer[design.buffer] = area - static_cast<double>(design.tensor_cores) * t->second -
                                  static_cast<double>(design.vector_cores) * v->second;
  }
  for (const auto& [design, area] : list) {
    const auto sum = table.area(design);
    if (!sum || std::abs(*sum - area) > 1e-9 * area)
      throw InputError(fmt::format("{}: the area {} of {} is not the sum of its parts", path, area,
                                   to_text(design)));
  }
  return table;
}

std::vector<ListedAccelerator> list_of_json(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array() || json.empty())
    throw InputError(
        fmt::format("{}: neither CSV with the columns part, size, area_um2 nor a JSON "
                    "array of accelerators",
                    path));
  std::vector<ListedAccelerator> list;
  for (const auto& entry : json) {
    const auto wrong = [&](const char* key) {
      return InputError(
          fmt::format("{}: accelerator {} has no number '{}' above 0", path, list.size(), key));
    };
    const auto whole = [&](const char* key) {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_number_integer() ||
          entry[key].get<std::int64_t>() < 1)
        throw wrong(key);
      return entry[key].get<std::int64_t>();
    };
    ListedAccelerator one{.design = {.tensor_cores = whole("num_tc"),
                                     .vector_cores = whole("num_vc"),
                                     .width = whole("width"),
                                     .depth = whole("depth"),
                                     .buffer = Bytes{whole("GLB_Buffer")}}};
    if (!entry.contains("area") || !entry["area"].is_number() || entry["area"].get<double>() <= 0.0)
      throw wrong("area");
    one.area = entry["area"].get<double>();
    if (entry.contains("width_vc") && whole("width_vc") != one.design.width)
      throw InputError(
          fmt::format("{}: accelerator {} has vector cores of another width", path, list.size()));
    list.push_back(one);
  }
  return list;
}

}  // namespace

AreaTable read_area_table(const std::string& path) {
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '[' || text[first] == '{'))
    return table_of_list(list_of_json(text, path), path);
  return table_of_csv(text, path);
}

}  // namespace baechi
