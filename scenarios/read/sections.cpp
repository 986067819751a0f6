#include "scenarios/read/sections.h"

#include <filesystem>
#include <iterator>

#include "placers/interface/registry.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/what_if_files.h"
#include "scenarios/read/yaml.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

using Value = Options::Value;

void expand(Value& value) {
  value.text = resolve_path(value, "");
  for (auto& [key, child] : value.children) expand(child);
}

/// The file of `import`, relative to `base` or, if there is none, to the installed data folder.
/// Throws InputError if neither exists.
std::string graph_file(const Value& import, const std::string& base) {
  std::string file = resolve_path(import, base);
  if (is_file(file)) return file;
  const std::filesystem::path data = data_folder();
  const std::string brought = (data / import.text).string();
  if (!data.empty() && is_file(brought)) return brought;
  throw InputError(fmt::format("{}graph.import: no file '{}'", at(import.where), file));
}

EngineOptions engine_options(Options& o) {
  EngineOptions e;
  e.semantics = read_enum(o, "semantics", e.semantics,
                          "event: event simulation; baechi: the original's list simulation");
  e.transfers = read_enum(o, "transfers", e.transfers, "which transfers run concurrently");
  e.queue = read_enum(o, "queue", e.queue, "which ready op runs next");
  e.cache_tensors = o.get("cache_tensors", e.cache_tensors,
                          "transfer a tensor to a device once, for all its readers");
  e.overlap = o.get("overlap", e.overlap, "overlap compute with transfers");
  e.enforce_memory =
      o.get("enforce_memory", e.enforce_memory, "stop at the first request over a device's limit");
  e.overlapped = o.get("overlapped", e.overlapped,
                       "factor on a collective that starts while a member computes", 1.0, 100.0);
  e.disturbed = o.get("disturbed", e.disturbed,
                      "factor on an op that starts while its device runs a collective", 1.0, 100.0);
  return e;
}

ProfileChoice profile_options(Options& o) {
  ProfileChoice profile;
  profile.error = o.get("error", 0.0,
                        "op and transfer times that placers see have an error factor uniform in 1 "
                        "+- this, drawn per seed");
  if (profile.error >= 1.0) o.mistake("error", "not below 1");
  profile.transfers = read_enum_unless<Transfers>(
      o, "transfers", "engine", "the value of engine.transfers that placers assume");
  return profile;
}

/// Reads NAME, or {NAME: {option: value, ...}}, in the list `owner`.
Choice read_choice(const Value& entry, std::string_view owner, const std::string& base) {
  const std::size_t colon = entry.text.find(':');
  if (entry.children.empty() && colon != std::string::npos && !entry.text.starts_with("exec:"))
    throw InputError(fmt::format("{}{}: '{}': write options as {{{}: {{option: value, ...}}}}",
                                 at(entry.where), owner, entry.text, entry.text.substr(0, colon)));
  if (entry.children.empty() && !entry.text.empty())
    return {.name = entry.text, .options = Options(entry.text, {}, base), .where = entry.where};
  if (!is_mapping(entry) || entry.children.size() != 1)
    throw InputError(fmt::format("{}{}: not a NAME or {{NAME: {{option: value, ...}}}}",
                                 at(entry.where), owner));
  const auto& [name, options] = entry.children.front();
  return {.name = name, .options = options_of(options, name, base), .where = entry.where};
}

/// Removes the user's name from {name: TEXT, PLACER: {...}} and returns it; "" if there is none.
std::string take_name(Value& entry) {
  if (!is_mapping(entry) || entry.children.size() != 2) return "";
  const auto it = std::ranges::find(entry.children, "name", [](const auto& c) { return c.first; });
  if (it == entry.children.end()) return "";
  if (it->second.text.empty() || !it->second.children.empty())
    throw InputError(fmt::format("{}name: not a text", at(it->second.where)));
  std::string name = it->second.text;
  entry.children.erase(it);
  return name;
}

std::string text_with_options(const Value& entry) {
  if (!is_mapping(entry)) return entry.text;
  const auto& [name, options] = entry.children.front();
  std::string text = name;
  for (const auto& [key, value] : options.children)
    text += fmt::format("{}{}={}", text.size() == name.size() ? ':' : ',', key, one_line(value));
  return text;
}

/// Adds to `entries` one entry for each combination of the lists of values in the options of
/// `entry`; the last option varies fastest. Without lists, `entry` itself.
void expand_lists(const Value& entry, std::vector<Value>& entries) {
  if (is_mapping(entry) && entry.children.size() == 1) {
    for (std::size_t i = 0; i < entry.children.front().second.children.size(); ++i) {
      const Value& values = entry.children.front().second.children[i].second;
      if (!is_list(values)) continue;
      for (const auto& [key, value] : values.children) {
        Value one = entry;
        one.children.front().second.children[i].second = value;
        expand_lists(one, entries);
      }
      return;
    }
  }
  entries.push_back(entry);
}

MeasureChoice make_measure_choice(Choice choice) {
  MeasureChoice made{std::move(choice)};
  made.measure = make_measure(made.name, made.options, made.where);
  made.unit = std::ranges::find(measures(), made.name, &MeasureEntry::name)->unit;
  return made;
}

ReportChoice report_options(Options& o) {
  ReportChoice report;
  report.placements =
      o.get("placements", report.placements, "keep every placement in results.sqlite");
  report.pictures = static_cast<std::size_t>(
      o.get("pictures", static_cast<std::int64_t>(report.pictures),
            "maximum number of steps that report.html draws; with more runs, a selection"));
  report.timelines = read_enum(o, "timelines", report.timelines,
                               "ID.PLACER.trace.json.gz of each point's fastest run, or of all");
  return report;
}

}  // namespace

Options options_of(const Value& section, std::string owner, const std::string& base,
                   const std::vector<std::string>& except) {
  if (is_list(section) || (section.children.empty() && !section.text.empty()))
    throw InputError(fmt::format("{}{}: {} is not a mapping of options", at(section.where), owner,
                                 is_list(section) ? "a list" : fmt::format("'{}'", section.text)));
  std::map<std::string, Value> values;
  for (const auto& [key, child] : section.children) {
    if (std::ranges::find(except, key) != except.end()) continue;
    expand(values.emplace(key, child).first->second);
  }
  return Options(std::move(owner), std::move(values), base);
}

void need(const Value& section, std::string_view owner,
          std::initializer_list<std::string_view> keys, Mistakes& mistakes) {
  for (const std::string_view key : keys) {
    if (find(section, key) == nullptr)
      mistakes.add(fmt::format("{}{}: it needs '{}'", at(section.where), owner, key));
  }
}

std::vector<SectionKeys> section_keys() {
  std::vector<SectionKeys> all = cluster_section_keys();
  all.push_back({"kinds.devices",
                 "entries NAME: {...}, with a base, or with peak, bandwidth and memory; an op of "
                 "known work takes launch + the longer of flops / (peak x efficiency) and traffic "
                 "/ (bandwidth x bandwidth_efficiency)",
                 device_kind_options(),
                 {}});
  all.push_back({"kinds.links", "entries NAME: {...}", link_kind_options(), {"bandwidth"}});
  all.push_back(calibration_section_keys());
  all.insert(all.end(), {{"engine",
                          "how the step is executed",
                          keys_of_reader([](Options& o) { engine_options(o); }),
                          {}},
                         {"profile",
                          "the costs as placers see them",
                          keys_of_reader([](Options& o) { profile_options(o); }),
                          {}},
                         codesign_section_keys(),
                         {"report",
                          "contents of the results",
                          keys_of_reader([](Options& o) { report_options(o); }),
                          {}}});
  return all;
}

GraphChoice read_graph(const Value& section, const std::string& base, Mistakes& mistakes) {
  GraphChoice graph;
  graph.where = section.where;
  graph.text = one_line(section);
  const Value* generate = find(section, "generate");
  const Value* import = find(section, "import");
  if ((generate == nullptr) == (import == nullptr)) {
    mistakes.add(fmt::format("{}graph: it needs either 'generate: NAME' or 'import: FILE'",
                             at(section.where)));
    return graph;
  }
  mistakes.attempt([&] {
    if (generate != nullptr) {
      mistakes.attempt(
          [&] { find_entry(generators(), "generator", generate->text, generate->where); });
      graph.generate = {.name = generate->text,
                        .options = options_of(section, generate->text, base, {"generate"}),
                        .where = generate->where};
      return;
    }
    if (const Value* importer = find(section, "importer")) {
      graph.importer = importer->text;
      mistakes.attempt(
          [&] { find_entry(importers(), "importer", importer->text, importer->where); });
    }
    graph.import_options = options_of(section, "import", base, {"import", "importer"});
    if (is_pattern(import->text))
      throw InputError(
          fmt::format("{}graph.import: a pattern ('{}') is only allowed in a sweep: sweep: "
                      "{{graph.import: [...]}}",
                      at(import->where), import->text));
    graph.file = graph_file(*import, base);
  });
  return graph;
}

EngineOptions read_engine(const Value& section, Mistakes& mistakes) {
  EngineOptions engine;
  mistakes.attempt([&] {
    engine = read_section(section, "engine", [](Options& o) { return engine_options(o); });
  });
  return engine;
}

ProfileChoice read_profile(const Value& section, Mistakes& mistakes) {
  ProfileChoice profile;
  mistakes.attempt([&] {
    profile = read_section(section, "profile", [](Options& o) { return profile_options(o); });
  });
  return profile;
}

std::vector<PlacerChoice> read_placers(const Value& section, const std::string& base,
                                       Mistakes& mistakes) {
  std::vector<PlacerChoice> choices;
  if (!is_list(section)) {
    mistakes.add(at(section.where) + "placers: not a list of NAME or {NAME: {option: value, ...}}");
    return choices;
  }
  std::map<std::string, int> uses;
  std::vector<Value> entries;
  std::vector<std::string> names;
  for (const auto& [key, given] : section.children) {
    mistakes.attempt([&] {
      Value entry = given;
      names.push_back(take_name(entry));
      entries.push_back(entry);
      choices.push_back({read_choice(entry, "placers", base)});
      PlacerChoice& choice = choices.back();
      ++uses[choice.name];
      choice.placer = make_placer(choice.name, choice.options, entry.where);
    });
  }
  if (choices.size() != section.children.size()) return choices;
  std::set<std::string> labels;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].text = text_with_options(entries[i]);
    choices[i].label = !names[i].empty()           ? names[i]
                       : uses[choices[i].name] > 1 ? choices[i].text
                                                   : choices[i].name;
    if (!labels.insert(choices[i].label).second)
      mistakes.add(
          fmt::format("{}placers: '{}' is listed twice", at(choices[i].where), choices[i].label));
  }
  return choices;
}

TransformChoice make_transform_choice(Choice choice) {
  TransformChoice made{std::move(choice)};
  made.transform = make_transform(made.name, made.options, made.where);
  made.use = std::ranges::find(transforms(), made.name, &TransformEntry::name)->use;
  return made;
}

std::vector<TransformChoice> read_transforms(const Value& section, const std::string& base,
                                             Mistakes& mistakes) {
  std::vector<TransformChoice> choices;
  const auto one = [&](const Value& given) {
    mistakes.attempt([&] {
      const Value entry = with_included_rules(given, base);
      Choice choice = read_choice(entry, "transforms", base);
      choice.text = text_with_options(entry);
      choices.push_back(make_transform_choice(std::move(choice)));
    });
  };
  if (section.text.empty() && section.children.empty()) return choices;
  if (section.text == "none") return choices;  // the baseline of a sweep
  if (!is_list(section)) {
    one(section);
    return choices;
  }
  for (const auto& [key, entry] : section.children) one(entry);
  return choices;
}

std::vector<MeasureChoice> read_measures(const Value& section, const std::string& base,
                                         Mistakes& mistakes) {
  std::vector<Value> entries;
  if (section.text.empty() && section.children.empty())
    entries.push_back(
        {.text = std::string(default_measure), .where = section.where, .children = {}});
  else if (is_list(section))
    for (const auto& [key, entry] : section.children) expand_lists(entry, entries);
  else
    expand_lists(section, entries);
  std::vector<MeasureChoice> choices;
  std::set<std::string> texts;
  for (const Value& entry : entries) {
    mistakes.attempt([&] {
      Choice choice = read_choice(entry, "measure", base);
      choice.text = choice.label = text_with_options(entry);
      if (!texts.insert(choice.text).second)
        throw InputError(
            fmt::format("{}measure: '{}' is listed twice", at(choice.where), choice.text));
      choices.push_back(make_measure_choice(std::move(choice)));
    });
  }
  return choices;
}

ReportChoice read_report(const Value& section, Mistakes& mistakes) {
  ReportChoice report;
  mistakes.attempt([&] {
    report = read_section(section, "report", [](Options& o) { return report_options(o); });
  });
  return report;
}

std::vector<std::uint64_t> read_seeds(const Value& section, Mistakes& mistakes) {
  std::vector<std::uint64_t> seeds;
  std::set<std::uint64_t> known;
  const auto one = [&](const Value& v) {
    std::uint64_t seed = 0;
    const char* last = v.text.data() + v.text.size();
    const auto [end, ec] = std::from_chars(v.text.data(), last, seed);
    if (ec != std::errc{} || end != last || !v.children.empty() || v.text.empty())
      mistakes.add(fmt::format("{}seeds: '{}' is not a whole number >= 0", at(v.where),
                               v.children.empty() ? v.text : one_line(v)));
    else if (!known.insert(seed).second)
      mistakes.add(fmt::format("{}seeds: {} is listed twice", at(v.where), seed));
    else
      seeds.push_back(seed);
  };
  if (is_list(section)) {
    for (const auto& [key, v] : section.children) one(v);
  } else {
    one(section);
  }
  return seeds;
}

}  // namespace baechi
