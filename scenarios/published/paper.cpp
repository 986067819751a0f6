#include "scenarios/published/paper.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/read/paths.h"
#include "scenarios/read/yaml.h"
#include "sim/csv_table.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that only one of the two texts has; "" if there are none. Ignores the lines' order.
std::string differences(const std::string& committed, const std::string& now) {
  const std::vector<std::string> before = lines_of(committed), after = lines_of(now);
  std::string text;
  for (const std::string& line : before)
    if (std::ranges::find(after, line) == after.end()) text += "  - " + line + "\n";
  for (const std::string& line : after)
    if (std::ranges::find(before, line) == before.end()) text += "  + " + line + "\n";
  return text;
}

/// A cell of a table: the key `value` of the entry that has all of `where`.
struct FileCell {
  std::string file;                          ///< CSV with a header, or JSON with an object per line
  std::map<std::string, std::string> where;  ///< key -> text or number
  std::string value;                         ///< the key of the number
};

/// The value of a cell in a file.
struct FoundCell {
  bool null = false;  ///< JSON's null: nothing fitted into memory
  double number = 0.0;
};

using JsonValue = nlohmann::json;

[[noreturn]] void several(const FileCell& cell, const std::string& place) {
  throw InputError(
      fmt::format("{}: a second entry that is as 'where' says", place.empty() ? cell.file : place));
}

/// Whether a number or a text is the one that is wanted.
bool is_wanted(const std::string& found, const std::string& wanted) {
  const auto a = parse_number<double>(found), b = parse_number<double>(wanted);
  return a && b ? *a == *b : found == wanted;
}

std::optional<FoundCell> in_csv(const FileCell& cell, const std::string& text) {
  const CsvTable table(text, cell.file);
  std::optional<FoundCell> found;
  for (std::size_t r = 0; r < table.num_rows(); ++r) {
    if (!std::ranges::all_of(cell.where, [&](const auto& wanted) {
          return is_wanted(table.text(r, table.column(wanted.first)), wanted.second);
        }))
      continue;
    if (found) several(cell, table.where(r, 0));
    found = FoundCell{.number = table.number(r, table.column(cell.value))};
  }
  return found;
}

std::optional<FoundCell> in_json_lines(const FileCell& cell, const std::string& text) {
  std::optional<FoundCell> found;
  std::istringstream in(text);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string place = fmt::format("{}:{}", cell.file, ++number);
    const JsonValue entry = JsonValue::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object()) throw InputError(place + ": not a JSON object");
    const auto text_of = [&](const std::string& key) {
      const auto it = entry.find(key);
      if (it == entry.end()) return std::string();
      return it->is_string() ? it->get<std::string>() : it->dump();
    };
    if (!std::ranges::all_of(cell.where, [&](const auto& wanted) {
          return is_wanted(text_of(wanted.first), wanted.second);
        }))
      continue;
    if (found) several(cell, place);
    const JsonValue value = entry.value(cell.value, JsonValue("missing"));
    if (!value.is_null() && !value.is_number())
      throw InputError(fmt::format("{}: '{}' is not a number", place, cell.value));
    found = value.is_null() ? FoundCell{.null = true} : FoundCell{.number = value.get<double>()};
  }
  return found;
}

/// Numbers in `where` are compared as numbers. Nothing if no entry matches all of `where`. Throws
/// InputError if the file cannot be read, if several entries match, or if their value is no number.
std::optional<FoundCell> find_cell(const FileCell& cell) {
  const std::string text = read_file(cell.file);
  return text.starts_with('{') ? in_json_lines(cell, text) : in_csv(cell, text);
}

using Value = Options::Value;

constexpr std::size_t most_paper_text = std::size_t{1} << 20U;

/// Reads paper.yaml; every step adds to mistakes_ and leaves what it can.
class PaperReader {
 public:
  PaperReader(Paper& paper, Mistakes& mistakes) : paper_(paper), mistakes_(mistakes) {}

  void read() {
    const std::string path = paper_.folder + "/paper.yaml";
    const Value root = parse_yaml(read_small_file(path, most_paper_text), path);
    if (!is_mapping(root)) throw InputError(path + ": not a mapping with the keys of a paper");
    if (const Value* inputs = find(root, "inputs")) find_inputs(*inputs);
    for (const auto& [key, value] : root.children) {
      if (key == "inputs") continue;
      if (key == "title")
        paper_.title = value.text;
      else if (key == "source")
        paper_.source = value.text;
      else if (key == "calibrations")
        for (const auto& child : value.children)
          mistakes_.attempt([&] { calibration(child.first, child.second); });
      else if (key == "tables")
        for (const auto& child : value.children)
          mistakes_.attempt([&] { table(child.first, child.second); });
      else if (!key.starts_with("x-"))
        unknown(key, value, {"title", "source", "inputs", "calibrations", "tables"});
    }
  }

 private:
  void unknown(const std::string& key, const Value& value, const std::vector<std::string>& known) {
    mistakes_.add(at(value.where) + no_such("key", key, known));
  }

  /// The first of the folders that is there. A variable that is not set names none.
  void find_inputs(const Value& folders) {
    std::vector<std::string> tried;
    for (const auto& [key, folder] : folders.children) {
      tried.push_back(folder.text);
      try {
        inputs_ = std::filesystem::absolute(resolve_path(folder, paper_.folder)).lexically_normal();
      } catch (const InputError&) {
        continue;
      }
      if (std::filesystem::is_directory(inputs_)) return;
    }
    paper_.missing = fmt::format("its inputs are not here (no {})", fmt::join(tried, ", no "));
  }

  static const Value& needed(const Value& section, std::string_view key) {
    const Value* value = find(section, key);
    if (value == nullptr) throw InputError(fmt::format("{}it needs '{}'", at(section.where), key));
    return *value;
  }

  static double number(const Value& value) {
    const auto n = parse_number<double>(value.text);
    if (!n) throw InputError(fmt::format("{}'{}' is not a number", at(value.where), value.text));
    return *n;
  }

  static Duration time(const Value& value) {
    const auto t = parse_duration(value.text);
    if (!t || *t <= Duration::zero())
      throw InputError(fmt::format("{}'{}' is not a time above 0, such as '269 ms'",
                                   at(value.where), value.text));
    return *t;
  }

  std::string scenario(const Value& section) {
    return paper_.folder + "/" + needed(section, "scenario").text;
  }

  /// With the folder of the inputs in place of ${inputs}.
  std::string with_inputs(std::string text) const {
    constexpr std::string_view variable = "${inputs}";
    if (const auto where = text.find(variable); where != std::string::npos)
      text.replace(where, variable.size(), inputs_);
    return text;
  }

  std::vector<std::string> sets(const Value& section, std::string_view name = "set") const {
    std::vector<std::string> all;
    if (const Value* set = find(section, name))
      for (const auto& [key, value] : set->children)
        all.push_back(with_inputs(fmt::format("{}={}", key, one_line(value))));
    return all;
  }

  static std::map<std::string, std::string> words(const Value& section, std::string_view name) {
    std::map<std::string, std::string> all;
    if (const Value* where = find(section, name))
      for (const auto& [key, value] : where->children) all[key] = value.text;
    return all;
  }

  void calibration(const std::string& name, const Value& section) {
    paper_.calibrations.push_back({.name = name,
                                   .scenario = scenario(section),
                                   .placer = needed(section, "placer").text,
                                   .sets = sets(section),
                                   .step_time = time(needed(section, "step_time"))});
  }

  void table(const std::string& name, const Value& section) {
    PaperTable table;
    table.name = name;
    table.title = needed(section, "title").text;
    if (const Value* notes = find(section, "notes")) table.notes = notes->text;
    if (const Value* unit = find(section, "unit")) read_unit(*unit, table);
    table.sets = sets(section);
    if (const Value* factors = find(section, "neighbours"))
      for (const auto& [key, factor] : factors->children)
        table.neighbours.push_back(number(factor));
    Metric metric = Metric::step_time;
    if (const Value* m = find(section, "metric")) metric = read_metric(*m);
    for (const auto& child : needed(section, "columns").children)
      mistakes_.attempt(
          [&] { table.columns.push_back(read_column(child.first, child.second, metric)); });
    for (const auto& child : needed(section, "rows").children)
      mistakes_.attempt([&] { table.rows.push_back(read_row(child.second, table)); });
    paper_.tables.push_back(std::move(table));
  }

  static void read_unit(const Value& value, PaperTable& table) {
    table.unit_name = value.text;
    if (value.text == "s") return;
    if (value.text == "ms") {
      table.unit = 1e-3;
      return;
    }
    const auto bytes = parse_bytes(value.text);
    if (!bytes || *bytes <= Bytes{})
      throw InputError(
          fmt::format("{}unit: '{}' is neither 's', 'ms' nor a size", at(value.where), value.text));
    table.unit = static_cast<double>(bytes->count);
  }

  static Metric read_metric(const Value& value) {
    if (const auto metric = parse<Metric>(value.text)) return *metric;
    constexpr auto metrics = all_words<Metric>();
    const std::vector<std::string> known(metrics.begin(), metrics.end());
    throw InputError(fmt::format("{}metric: no '{}'{} (metrics: {})", at(value.where), value.text,
                                 did_you_mean(value.text, known), fmt::join(known, ", ")));
  }

  PaperColumn read_column(const std::string& name, const Value& section, Metric metric) const {
    PaperColumn column;
    column.name = name;
    column.metric = metric;
    if (const Value* m = find(section, "metric")) column.metric = read_metric(*m);
    if (is_serving(column.metric))
      for (const auto& [key, batch] : needed(section, "batches").children)
        column.batches.push_back(static_cast<std::int64_t>(number(batch)));
    else if (!is_codesign(column.metric))
      column.placer = needed(section, "placer").text;
    if (column.metric == Metric::fact) column.fact = needed(section, "fact").text;
    column.sets = sets(section);
    column.where = words(section, "where");
    if (const Value* over = find(section, "over")) column.over = number(*over);
    if (const Value* d = find(section, "rank")) column.rank = static_cast<std::size_t>(number(*d));
    if (const Value* of = find(section, "of")) column.of = of->text;
    if (const Value* counted = find(section, "counted")) column.counted = counted->text != "false";
    return column;
  }

  PaperRow read_row(const Value& section, const PaperTable& table) {
    PaperRow row;
    row.label = needed(section, "label").text;
    if (const Value* product = find(section, "arithmetic")) {
      row.arithmetic = 1.0;
      for (const auto& [key, factor] : product->children) *row.arithmetic *= number(factor);
    } else if (find(section, "scenario") != nullptr) {
      row.scenario = scenario(section);
      row.sets = table.sets;
      std::ranges::move(sets(section), std::back_inserter(row.sets));
      row.base = sets(section, "base");
    } else if (const Value* server = find(section, "server")) {
      row.server =
          ServingRow{.file = with_inputs(needed(*server, "file").text),
                     .where = words(*server, "where"),
                     .threads = static_cast<std::int64_t>(number(needed(*server, "threads")))};
      if (const Value* factor = find(*server, "interference"))
        row.server->interference = number(*factor);
    }
    if (const Value* c = find(section, "calibration")) {
      row.calibration = c->text;
      if (std::ranges::find(paper_.calibrations, c->text, &PaperCalibration::name) ==
          paper_.calibrations.end())
        throw InputError(fmt::format("{}no calibration '{}'", at(c->where), c->text));
    }
    const Value& published = needed(section, "published");
    if (find(published, "file") != nullptr) {
      read_file_cells(published, table, row);
      return row;
    }
    for (const auto& [name, value] : published.children) {
      if (std::ranges::find(table.columns, name, &PaperColumn::name) == table.columns.end())
        throw InputError(
            fmt::format("{}table {} has no column '{}'", at(value.where), table.name, name));
      row.published[name] = value.text == to_text(Status::oom) ? PaperValue{.oom = true}
                            : value.text == "not readable"     ? PaperValue{.unread = true}
                                                           : PaperValue{.number = number(value)};
    }
    return row;
  }

  /// `published: {file: , where: , value: , times: }`: a cell for each column, whose own `where` is
  /// added, and whose `over` divides. Where the file has no such entry, none is published.
  void read_file_cells(const Value& published, const PaperTable& table, PaperRow& row) const {
    if (!paper_.missing.empty()) return;
    FileCell cell{.file = with_inputs(needed(published, "file").text),
                  .where = words(published, "where"),
                  .value = needed(published, "value").text};
    double times = 1.0;
    if (const Value* factor = find(published, "times")) times = number(*factor);
    for (const PaperColumn& column : table.columns) {
      FileCell of_column = cell;
      of_column.where.insert(column.where.begin(), column.where.end());
      if (const auto found = find_cell(of_column))
        row.published[column.name] = {
            .oom = found->null, .number = found->number * times / column.over, .in_file = true};
    }
    if (row.published.empty())
      throw InputError(
          fmt::format("{}{} has no entry for any column", at(published.where), cell.file));
  }

  Paper& paper_;
  Mistakes& mistakes_;
  std::string inputs_;  // a folder, or the last that was looked for
};

}  // namespace

bool is_time_of_placing(Metric metric) {
  return metric == Metric::placing_time || metric == Metric::processor_time;
}

bool is_codesign(Metric metric) {
  return metric == Metric::codesign_step || metric == Metric::codesign_gain ||
         metric == Metric::codesign_visited;
}

bool is_serving(Metric metric) {
  return metric >= Metric::one_instance && metric <= Metric::serving_instances;
}

std::string_view objective_of(Metric metric) {
  return metric == Metric::max_load || metric == Metric::latency ? to_text(metric) : "";
}

Paper load_paper(const std::string& folder, Mistakes& mistakes) {
  Paper paper;
  paper.folder = folder;
  paper.name = std::filesystem::path(folder).filename().string();
  Mistakes found;
  found.attempt([&] { PaperReader(paper, found).read(); });
  found.sort_by_place();
  mistakes.add(found);
  return paper;
}

std::vector<std::string> paper_folders(const std::string& below, const std::string& name) {
  std::vector<std::string> found, names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(below, none)) {
    if (!fs::exists(entry.path() / "paper.yaml")) continue;
    names.push_back(entry.path().filename().string());
    if (name.empty() || names.back() == name) found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  std::ranges::sort(names);
  if (names.empty())
    throw InputError(fmt::format("no papers below '{}' (--folder says where)", below));
  if (found.empty() && is_file(name))
    require_kind(TextFile(name, Content::any), "the name of a paper");
  if (found.empty()) throw InputError(no_such("paper", name, names));
  return found;
}

std::string difference_from_committed(const Paper& paper, const PaperResult& result) {
  std::ifstream file(paper.folder + "/results.csv");
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  return differences(committed, to_csv(paper, result));
}

}  // namespace baechi
