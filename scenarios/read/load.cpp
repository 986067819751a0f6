#include <filesystem>

#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "sim/text.h"

namespace baechi {
namespace {

using Value = Options::Value;

constexpr std::size_t most_text = std::size_t{1} << 20U;
constexpr std::size_t most_points = 100'000;
constexpr std::size_t most_copied = 50'000'000;  // values, over all points
constexpr std::size_t enough_mistakes = 100;     // per file
constexpr std::string_view sections[] = {"graph", "transforms", "cluster", "engine",
                                         "profile"};  // the slowest to build first

/// The mistake in a scenario's name, which also names the folder of its results; "" if it is valid.
std::string wrong_with_name(const std::string& name) {
  constexpr std::size_t most = 200;  // bytes; file systems allow 255
  const std::string shown = plain_text(name.substr(0, 60));
  if (name.empty()) return "not a text";
  if (name.size() > most) return fmt::format("'{}...' is longer than {} bytes", shown, most);
  if (name == "." || name == ".." || name.find('/') != std::string::npos)
    return fmt::format("'{}' is a path; the name also names the folder results/NAME", shown);
  if (plain_text(name) != name || name.find_first_of("\t\n\r") != std::string::npos)
    return fmt::format("'{}' has bytes that are not UTF-8, or control characters", shown);
  return "";
}

/// Reads one file. Every step adds to mistakes_ and continues with what is valid.
class Loader {
 public:
  Loader(const std::string& path, Mistakes& mistakes)
      : path_(path),
        base_(std::filesystem::path(path).parent_path().string()),
        mistakes_(mistakes) {}

  ScenarioFile load(std::string text, std::span<const std::string> sets) {
    ScenarioFile file;
    file.path = path_;
    file.text = std::move(text);
    file.sets = {sets.begin(), sets.end()};
    mistakes_.attempt([&] {
      root_ = parse_yaml(file.text, path_);
      const auto known = [](const auto& child) {
        return child.first.starts_with("x-") ||
               std::ranges::find(top_keys(), child.first, &TopKey::key) != top_keys().end();
      };
      if (!is_mapping(root_) || std::ranges::none_of(root_.children, known))
        throw InputError(path_ + ": not a mapping with the keys of a scenario");
      for (const std::string& set : sets) mistakes_.attempt([&] { apply(set); });
      check_keys();
      read_sweep();
      include_clusters();
      read_kinds();
      expand(file);
    });
    return file;
  }

 private:
  void apply(const std::string& set) {
    const std::size_t equals = set.find('=');
    const std::string key = set.substr(0, equals);
    if (equals == std::string::npos || key.empty())
      throw InputError(fmt::format("--set {}: not KEY=VALUE", set));
    const Value value = parse_yaml(set.substr(equals + 1), "--set " + key);
    constexpr std::string_view sweep = "sweep.";
    if (!key.starts_with(sweep)) {
      put(root_, key, value);
      if (Value* axes = find(root_, "sweep")) erase(*axes, key);
      return;
    }
    put(root_, "sweep", find(root_, "sweep") == nullptr ? Value{} : *find(root_, "sweep"));
    Value& axes = *find(root_, "sweep");
    const std::string axis = key.substr(sweep.size());
    erase(axes, axis);
    axes.children.emplace_back(axis, value);
  }

  void check_keys() {
    std::vector<std::string> known;
    for (const TopKey& k : top_keys()) known.emplace_back(k.key);
    for (const auto& [key, value] : root_.children) {
      if (key.starts_with("x-") || std::ranges::find(known, key) != known.end()) continue;
      mistakes_.add(fmt::format("{}a scenario has no key '{}'{} (keys: {})", at(value.where), key,
                                did_you_mean(key, known), fmt::join(known, ", ")));
    }
    for (const std::string_view key : {"graph", "cluster", "placers"}) {
      const bool other_verb = key == "placers" && find(root_, "codesign") != nullptr;
      if (find(root_, key) == nullptr && !is_swept(key) && !other_verb)
        mistakes_.add(fmt::format("{}: it needs '{}'", path_, key));
    }
  }

  /// True if the sweep has `section` or a key below it.
  bool is_swept(std::string_view section) const {
    const Value* sweep = find(root_, "sweep");
    return sweep != nullptr && std::ranges::any_of(sweep->children, [&](const auto& axis) {
             return axis.first.substr(0, axis.first.find('.')) == section;
           });
  }

  void read_sweep() {
    const Value* sweep = find(root_, "sweep");
    if (sweep == nullptr || (sweep->children.empty() && sweep->text.empty())) return;
    if (!is_mapping(*sweep)) {
      mistakes_.add(at(sweep->where) + "sweep: not a mapping of KEY: [value, ...]");
      return;
    }
    for (const auto& [key, values] : sweep->children) {
      if (!is_list(values)) {
        mistakes_.add(
            fmt::format("{}sweep.{}: not a list of at least one value", at(values.where), key));
      } else if (key == "placers" || key == "seeds" || key == "measure") {
        if (find(root_, key) != nullptr)
          mistakes_.add(fmt::format("{}sweep.{}: also given as '{}'", at(values.where), key, key));
        lists_[key] = values;
      } else {
        read_axis(key, values);
      }
    }
  }

  void read_axis(const std::string& key, const Value& values) {
    static constexpr std::string_view sweepable[] = {"graph",   "transforms", "cluster", "engine",
                                                     "profile", "placers",    "seeds",   "measure"};
    if (std::ranges::find(sections, key.substr(0, key.find('.'))) == std::end(sections)) {
      const std::vector<std::string> known(std::begin(sweepable), std::end(sweepable));
      mistakes_.add(
          fmt::format("{}sweep: no '{}' to sweep{} (one of {}, or a dotted key in the first five)",
                      at(values.where), key, did_you_mean(key.substr(0, key.find('.')), known),
                      fmt::join(known, ", ")));
      return;
    }
    Axis axis{.key = key, .values = {}};
    std::set<std::string> seen;
    for (const auto& [none, value] : values.children) {
      if (key == "graph.import" && is_pattern(value.text)) {
        mistakes_.attempt([&] { add_files(value, axis); });
      } else {
        axis.values.push_back(value);
      }
    }
    for (const Value& value : axis.values) {
      // 1.0 and 1 are the same value.
      const auto number = value.children.empty() ? parse_number<double>(value.text) : std::nullopt;
      if (!seen.insert(number ? fmt::to_string(*number) : one_line(value)).second)
        mistakes_.add(
            fmt::format("{}sweep.{}: {} is listed twice", at(value.where), key, one_line(value)));
    }
    axes_.push_back(std::move(axis));
  }

  void add_files(const Value& pattern, Axis& axis) const {
    for (std::string& file : matching_files(pattern, base_))
      axis.values.push_back({.text = std::move(file), .where = pattern.where, .children = {}});
  }

  /// Replaces clusters that are paths by the files' contents.
  void include_clusters() {
    if (Value* cluster = find(root_, "cluster"))
      clusters_known_ = include(*cluster, "cluster") && clusters_known_;
    for (Axis& axis : axes_) {
      if (axis.key != "cluster") continue;
      for (Value& value : axis.values)
        clusters_known_ = include(value, "cluster") && clusters_known_;
    }
  }

  /// Replaces a `section` that is a path by the file's content. False if that fails.
  bool include(Value& section, std::string_view key) {
    if (!section.children.empty() || section.text.empty()) return true;
    return mistakes_.attempt([&] {
      const std::string path = resolve_path(section, base_);
      std::string text;
      try {
        text = read_small_file(path, most_text);
      } catch (const InputError& e) {
        throw InputError(fmt::format("{}{}: {}", at(section.where), key, e.what()));
      }
      Value content = parse_yaml(text, path);
      content.text = section.text;  // its label in a sweep
      section = std::move(content);
    });
  }

  void read_kinds() {
    Value* kinds = find(root_, "kinds");
    if (kinds != nullptr && include(*kinds, "kinds"))
      own_kinds_.emplace(built_in_devices()).add(*kinds, mistakes_);
  }

  std::vector<Axis> axes_below(std::string_view section) const {
    std::vector<Axis> axes;
    for (const Axis& axis : axes_)
      if (axis.key.substr(0, axis.key.find('.')) == section) axes.push_back(axis);
    return axes;
  }

  template <class T>
  std::vector<T> read_all(std::string_view section, auto read) {
    const std::vector<Axis> axes = axes_below(section);
    const Value* given = find(root_, section);
    std::vector<T> all;
    const bool has_default = section != "graph" && section != "cluster";
    if (given == nullptr && axes.empty() && !has_default) return all;
    if (section == "cluster" && !clusters_known_) return all;
    mistakes_.attempt([&] {
      for_each_combination(std::string(section), given == nullptr ? Value{} : *given, axes,
                           [&](const Value& variant) {
                             all.push_back(read(variant));
                             return mistakes_.size() < enough_mistakes;
                           });
    });
    return all;
  }

  /// Throws InputError if expanding the sweep would take unreasonably long.
  void check_size() const {
    const std::size_t points = count_combinations(axes_, most_points);
    std::size_t values = 1;
    for (const Axis& axis : axes_) {
      std::size_t largest = 0;  // a point has one of the values
      for (const Value& value : axis.values) largest = std::max(largest, count_values(value));
      values += largest;
    }
    for (const std::string_view section : sections)
      if (const Value* value = find(root_, section)) values += count_values(*value);
    if (points > most_points || points * values > most_copied)
      throw InputError(
          fmt::format("{}sweep: too large ({} points or more, of {} values; at most {} points)",
                      at(find(root_, "sweep")->where), points, values, most_points));
  }

  void expand(ScenarioFile& file) {
    const Value* name = find(root_, "name");
    file.name = name != nullptr ? name->text : std::filesystem::path(path_).stem().string();
    if (const std::string wrong = wrong_with_name(file.name); !wrong.empty())
      mistakes_.add(
          fmt::format("{}name: {}", name != nullptr ? at(name->where) : path_ + ": ", wrong));
    const auto list = [&](std::string_view key) {
      const auto it = lists_.find(key);
      return it != lists_.end() ? &it->second : find(root_, key);
    };
    if (const Value* placers = list("placers"))
      file.placers = read_placers(*placers, base_, mistakes_);
    if (const Value* seeds = list("seeds")) file.seeds = read_seeds(*seeds, mistakes_);
    const Value* measure = list("measure");
    file.measures = read_measures(measure != nullptr ? *measure : Value{}, base_, mistakes_);
    if (const Value* codesign = find(root_, "codesign"))
      file.codesign = read_codesign(*codesign, base_, mistakes_);
    if (const Value* report = find(root_, "report")) file.report = read_report(*report, mistakes_);

    check_size();
    for (const std::string_view section : sections) {
      for (const Axis& axis : axes_below(section)) {
        file.axes.push_back(axis.key);
        std::vector<std::string>& written = file.axis_values.emplace_back();
        for (const Value& value : axis.values)
          written.push_back(value.text.empty() ? one_line(value) : value.text);
      }
    }
    file.transforms = read_all<std::vector<TransformChoice>>(
        "transforms", [&](const Value& v) { return read_transforms(v, base_, mistakes_); });
    const KnownKinds kinds = own_kinds_ ? KnownKinds(*own_kinds_) : KnownKinds();
    file.clusters = read_all<ClusterChoice>(
        "cluster", [&](const Value& v) { return read_cluster(v, base_, kinds, mistakes_); });
    if (const Value* section = find(root_, "calibration")) {
      const CalibrationChoice calibration = read_calibration_section(*section, base_, mistakes_);
      for (ClusterChoice& cluster : file.clusters) cluster.calibration = calibration;
    }
    file.engines = read_all<EngineOptions>(
        "engine", [&](const Value& v) { return read_engine(v, mistakes_); });
    file.profiles = read_all<ProfileChoice>(
        "profile", [&](const Value& v) { return read_profile(v, mistakes_); });
    auto graphs = read_all<GraphChoice>(
        "graph", [&](const Value& v) { return read_graph(v, base_, mistakes_); });
    if (mistakes_.empty()) file.graphs = std::move(graphs);
  }

  const std::string& path_;
  std::string base_;
  Mistakes& mistakes_;
  Value root_;
  std::optional<DeviceTable> own_kinds_;             // includes the built-in types
  bool clusters_known_ = true;                       // false if a cluster's file cannot be read
  std::vector<Axis> axes_;                           // as in the file
  std::map<std::string, Value, std::less<>> lists_;  // swept placers, seeds and measures
};

}  // namespace

PointSections ScenarioFile::sections(std::size_t point) const {
  const auto take = [&point](std::size_t count) {
    const std::size_t digit = point % count;
    point /= count;
    return digit;
  };
  PointSections b;
  b.profile = take(profiles.size());
  b.engine = take(engines.size());
  b.cluster = take(clusters.size());
  b.transforms = take(transforms.size());
  b.graph = point;
  return b;
}

Scenario ScenarioFile::point(std::size_t number) const {
  const PointSections b = sections(number);
  Scenario point{.name = name,
                 .graph = graphs[b.graph],
                 .transforms = transforms[b.transforms],
                 .cluster = clusters[b.cluster],
                 .engine = engines[b.engine],
                 .profile = profiles[b.profile],
                 .placers = placers,
                 .seeds = seeds,
                 .measures = measures,
                 .at = std::vector<std::string>(axes.size())};
  for (std::size_t a = axes.size(); a-- > 0;) {
    point.at[a] = axis_values[a][number % axis_values[a].size()];
    number /= axis_values[a].size();
  }
  return point;
}

std::span<const TopKey> top_keys() {
  static constexpr TopKey keys[] = {
      {"name", "the scenario's name in results; default: the file's name"},
      {"graph", "`generate: NAME` or `import: FILE`, and the generator's or importer's options"},
      {"transforms",
       "a list of NAME or {NAME: {option: value, ...}}: the graph is rewritten in turn"},
      {"cluster", "devices and links, or the path of a file with such a section"},
      {"kinds",
       "types of devices and links in addition to those of 'baechi list devices': {devices: {NAME: "
       "{...}}, links: {NAME: {...}}}, or the path of a file with such a section"},
      {"calibration",
       "measured costs of a machine, instead of modelled ones: a file of 'baechi validate "
       "calibrate', or a section"},
      {"engine", "how the step is executed"},
      {"profile", "the costs as placers see them"},
      {"placers", "a list of NAME or {NAME: {option: value, ...}}: one run each"},
      {"seeds", "a list of whole numbers: each placer runs once per seed; [0] if not given"},
      {"measure",
       "a list of NAME or {NAME: {option: value or [value, ...], ...}}: the values of each "
       "placement, one row each; [step_time] if not given"},
      {"sweep", "dotted key: [value, ...]; every combination is a point"},
      {"codesign",
       "for 'baechi study codesign': which architecture of an accelerator trains the model "
       "fastest; `placers` may then be missing"},
      {"report", "contents of the results"},
  };
  return keys;
}

ScenarioFile parse_scenario(std::string text, const std::string& path,
                            std::span<const std::string> sets, Mistakes& mistakes) {
  Mistakes found;
  ScenarioFile file = Loader(path, found).load(std::move(text), sets);
  found.sort_by_place();
  mistakes.add(found);
  return file;
}

ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets,
                           Mistakes& mistakes) {
  try {
    std::string text = read_small_file(path, most_text, "a scenario");
    return parse_scenario(std::move(text), path, sets, mistakes);
  } catch (const InputError& e) {
    mistakes.add(e.what());
    return {};
  }
}

ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets) {
  Mistakes mistakes;
  ScenarioFile file = load_scenario(path, sets, mistakes);
  mistakes.throw_if_any();
  return file;
}

std::vector<ScenarioFile> load_scenarios(std::span<const std::string> paths,
                                         std::span<const std::string> sets, Mistakes& mistakes) {
  std::vector<ScenarioFile> files;
  files.reserve(paths.size());
  std::set<std::filesystem::path> known;
  for (const std::string& path : paths) {
    std::error_code none;  // load_scenario() reports a missing path
    if (!known.insert(std::filesystem::weakly_canonical(path, none)).second)
      mistakes.add(fmt::format("{}: this scenario is given twice", path));
    files.push_back(load_scenario(path, sets, mistakes));
  }
  return files;
}

}  // namespace baechi
