#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>

#include "cli/arguments.h"
#include "cli/output.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/scenario_schema.h"
#include "scenarios/read/yaml.h"

namespace baechi {
namespace {

struct Section {
  std::string name;
  std::vector<Component> items;
  std::string if_empty{};  ///< printed if there are no items
};

/// The peak rates by dtype, or a single one if all are equal.
std::string peaks_of(const DeviceModel& model) {
  std::vector<std::string> peaks;
  bool equal = true;
  for (const Precision p : all<Precision>()) {
    const FlopRate peak = model.arithmetic[static_cast<std::size_t>(p)].peak;
    equal = equal && peak == model.arithmetic[0].peak;
    if (peak > FlopRate{}) peaks.push_back(fmt::format("{} {}", to_text(p), to_text(peak)));
  }
  return equal ? to_text(model.arithmetic[0].peak) : fmt::format("{}", fmt::join(peaks, ", "));
}

std::string fitted_text(const std::string& fitted) {
  if (fitted.empty()) return "unfitted";
  return fitted.starts_with("unfitted") || fitted.starts_with("as ") ? fitted
                                                                     : "fitted to " + fitted;
}

/// "; variants: a100_pytorch, a100_xla" of "a100": the same GPU with the kernels of a framework.
std::string variants_of(const std::string& name, const DeviceModel& model) {
  std::vector<std::string_view> variants;
  for (const auto& [other, of_other] : built_in_devices().devices)
    if (other.starts_with(name + "_") && of_other->memory == model.memory)
      variants.push_back(other);
  return variants.empty() ? "" : fmt::format("; variants: {}", fmt::join(variants, ", "));
}

Section device_section() {
  Section section{"devices", {}};
  for (const auto& [name, model] : built_in_devices().devices) {
    // Made of its GPU's `llamacpp`: the GPU's line names it.
    if (model->fitted.starts_with(numbers_of_another)) continue;
    section.items.push_back(
        {name,
         fmt::format("{}, {}, {}; {}{}", peaks_of(*model), to_text(model->bandwidth),
                     to_text(model->memory), fitted_text(model->fitted), variants_of(name, *model)),
         model->source,
         {}});
  }
  return section;
}

Section link_section() {
  Section section{"links", {}};
  for (const auto& [name, model] : built_in_devices().links)
    section.items.push_back(
        {name,
         fmt::format("{}, {}", to_text(model.link.bandwidth), to_text(model.link.latency)),
         model.source,
         {}});
  return section;
}

Section block_section(std::string name, const std::map<std::string, SectionModel>& kinds) {
  Section section{std::move(name), {}};
  constexpr std::size_t most = 300;  // characters; a table of measured times is abbreviated
  for (const auto& [kind, model] : kinds) {
    std::string text = one_line(model.section);
    if (text.size() > most) text = text.substr(0, text.find("times")) + "times: ...}";
    if (!model.fitted.empty()) text += "; " + fitted_text(model.fitted);
    section.items.push_back({kind, std::move(text), model.source, {}});
  }
  return section;
}

/// The first sentence of the comment at the top of a file, without the line for YAML editors.
std::string first_comment(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  for (std::string line; std::getline(file, line) && line.starts_with('#');) {
    if (!line.starts_with("# ") || line.starts_with("# yaml-language-server")) continue;
    text += (text.empty() ? "" : " ") + line.substr(2);
    if (text.ends_with('.') || text.ends_with('?')) break;
    if (const std::size_t end = text.find(". "); end != std::string::npos)
      return text.substr(0, end + 1);
  }
  return text;
}

/// An item for each file of `folder` (in the working directory or data_folder()) for which
/// `name_of` is not "", by name.
Section file_section(std::string name, const std::string& folder, const auto& name_of) {
  Section section{std::move(name), {}, "none below ./" + folder};
  std::error_code none;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(with_data_folder(folder), none)) {
    const std::filesystem::path& path = entry.path();
    if (std::string called = name_of(path); !called.empty())
      section.items.push_back({std::move(called), first_comment(path), path.string(), {}});
  }
  std::ranges::sort(section.items, {}, &Component::name);
  return section;
}

/// The names that `baechi run NAME` accepts.
Section scenario_section() {
  return file_section("scenarios", "scenarios/examples", [](const std::filesystem::path& path) {
    return path.extension() == ".yaml" ? path.stem().string() : std::string();
  });
}

/// The names that `baechi paper NAME` accepts.
Section paper_section() {
  return file_section("papers", "scenarios/papers", [](const std::filesystem::path& path) {
    return path.filename() == "paper.yaml" ? path.parent_path().filename().string() : std::string();
  });
}

/// The names that are taken for a model, with options behind ":".
Section model_section() {
  Section section{"models", {}};
  for (const generate::KnownModel& model : generate::known_models())
    section.items.push_back(
        {model.name,
         fmt::format("{}, {}",
                     model.parameters == 0
                         ? "parameters not stated"
                         : fmt::format("{:.4g} billion parameters",
                                       static_cast<double>(model.parameters) / 1e9),
                     model.generator),
         model.source,
         {}});
  return section;
}

std::vector<Section> sections() {
  Catalogue all = catalogue();
  return {{"placers", std::move(all.placers)},
          {"objectives", std::move(all.objectives)},
          {"measures", std::move(all.measures)},
          {"transforms", std::move(all.transforms)},
          {"generators", std::move(all.generators)},
          model_section(),
          {"importers", std::move(all.importers)},
          device_section(),
          link_section(),
          block_section("nodes", built_in_devices().nodes),
          block_section("collective_kinds", built_in_devices().collectives),
          {"collective_models", std::move(all.collectives)},
          scenario_section(),
          paper_section()};
}

/// Takes the options that all placers or most generators have, with the same meaning, out of their
/// rows, and returns them as a section with a row for each of the two.
Section take_common_options(std::vector<Section>& sections) {
  Section common{"common_options", {}};
  for (Section& section : sections) {
    std::map<std::pair<std::string, std::string>, std::size_t> found;  // by key and help
    for (const Component& item : section.items)
      for (const Options::Declared& o : item.options) ++found[{o.key, o.help}];
    const auto shared = [&](const Options::Declared& o) {
      return 4 * found.at({o.key, o.help}) > 3 * section.items.size();
    };
    Component all{.name = section.name, .summary = "options of these", .source = "", .options = {}};
    for (Component& item : section.items)
      for (const Options::Declared& o : item.options)
        if (section.items.size() > 1 && shared(o) &&
            std::ranges::find(all.options, o.key, &Options::Declared::key) == all.options.end())
          all.options.push_back(o);
    for (Component& item : section.items)
      std::erase_if(item.options, [&](const Options::Declared& o) {
        return section.items.size() > 1 && shared(o);
      });
    if (!all.options.empty()) common.items.push_back(std::move(all));
  }
  return common;
}

/// The names of each section, a screen in all.
std::string overview(const std::vector<Section>& all) {
  constexpr std::size_t indent = 19;
  std::string text;
  for (const Section& section : all) {
    constexpr std::size_t most = 60;  // names
    std::string names;
    for (const Component& item : section.items | std::views::take(most))
      names += (names.empty() ? "" : " ") + item.name;
    if (section.items.size() > most)
      names += fmt::format(" ... ({} in 'baechi list {}')", section.items.size(), section.name);
    std::string lines = wrapped(section.items.empty() ? section.if_empty : names, 100 - indent);
    for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += indent)
      lines.insert(at + 1, std::string(indent, ' '));
    text += bold(fmt::format("{:<{}}", section.name, indent)) + lines + "\n";
  }
  return text +
         "\n'baechi list placers' describes each placer, 'baechi list placers m_etf' one placer "
         "with\n"
         "its options and source. --format json and markdown list everything.\n";
}

/// A line per item, truncated to the terminal's width.
std::string table(const Section& section) {
  std::string text;
  std::size_t width = 0;
  for (const Component& item : section.items) width = std::max(width, item.name.size());
  for (const Component& item : section.items) {
    std::string line = fmt::format("  {:<{}}  {}", item.name, width, item.summary);
    if (on_terminal() && line.size() > terminal_width())
      line = line.substr(0, terminal_width() - 3) + "...";
    text += line + "\n";
  }
  return section.items.empty() ? fmt::format("  {}\n", section.if_empty) : text;
}

std::string details(const Component& item) {
  std::string text = fmt::format("{}: {}\n", bold(item.name), item.summary);
  if (!item.source.empty()) text += fmt::format("Source: {}\n", item.source);
  for (const auto& [key, fallback, help, type, allowed] : item.options)
    text +=
        fmt::format("  {:<18} {}{}\n", key, help, fallback.empty() ? "" : " [" + fallback + "]");
  return text;
}

std::string markdown(const std::vector<Section>& chosen) {
  std::string text;
  for (const Section& section : chosen) {
    text += fmt::format("{}## {}\n\n", text.empty() ? "" : "\n", section.name);
    if (section.items.empty()) {
      text += section.if_empty + "\n";
      continue;
    }
    text += "| name | what | source | options |\n| --- | --- | --- | --- |\n";
    for (const Component& item : section.items) {
      std::string options;
      for (const auto& [key, fallback, help, type, allowed] : item.options)
        options +=
            fmt::format("{}`{}` = {}: {}", options.empty() ? "" : "<br>", key,
                        fallback.empty() ? "-" : markdown_cell(fallback), markdown_cell(help));
      text += fmt::format("| `{}` | {} | {} | {} |\n", item.name, markdown_cell(item.summary),
                          markdown_cell(item.source), options);
    }
  }
  return text;
}

nlohmann::ordered_json json(const std::vector<Section>& chosen) {
  using Json = nlohmann::ordered_json;
  Json answer = Json::object();
  for (const Section& section : chosen) {
    Json& items = answer[section.name] = Json::array();
    for (const Component& item : section.items) {
      Json options = Json::array();
      for (const auto& [key, fallback, help, type, allowed] : item.options)
        options.push_back({{"name", key}, {"default", fallback}, {"help", help}});
      items.push_back({{"name", item.name},
                       {"summary", item.summary},
                       {"source", item.source},
                       {"options", std::move(options)}});
    }
  }
  return answer;
}

std::vector<std::string> item_names(const auto& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

/// Removes all items but the one called `name`. Throws InputError with the known names if there is
/// none.
template <typename Item>
void keep(std::vector<Item>& items, const std::string& name, std::string_view verb) {
  const std::vector<std::string> known = item_names(items);
  std::erase_if(items, [&name](const Item& item) { return item.name != name; });
  if (items.empty())
    throw InputError(fmt::format("{}: unknown name '{}'{} (known: {})", verb, name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
}

int list(const std::string& what, const std::string& name, const std::string& format) {
  std::vector<Section> chosen = sections();
  if (!what.empty()) keep(chosen, what, "baechi list");
  if (!name.empty()) keep(chosen.front().items, name, "baechi list " + what);
  if (what.empty() && format != "table") chosen.push_back(take_common_options(chosen));
  if (format == "json")
    print_json(json(chosen));
  else if (format == "markdown")
    print_out(markdown(chosen));
  else if (what.empty())
    print_out(overview(chosen));
  else
    print_out(name.empty() ? table(chosen.front()) : details(chosen.front().items.front()));
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Verb& chosen) {
  struct Arguments {
    std::string what, name, format;
  };
  const auto [verb, arguments] = add_verb<Arguments>(
      app, chosen, "list", "List placers, importers, devices and all other components",
      [](const Arguments& a) { return list(a.what, a.name, a.format); });
  add_value(*verb, "WHAT", arguments->what, "",
            "What to list: placers, objectives, measures, transforms, generators, models, "
            "importers, devices, links, nodes, collective_kinds, collective_models, scenarios or "
            "papers [all]");
  add_value(*verb, "NAME", arguments->name, "", "One of them, with its options and source");
  add_format(*verb, arguments->format, {"table", "json", "markdown"});
  verb->footer(
      "Examples:\n"
      "  baechi list placers\n"
      "  baechi list placers m_etf\n"
      "  baechi list generators --format markdown");
}

void add_schema(CLI::App& app, Verb& chosen) {
  const auto [verb, reference] =
      add_verb<bool>(app, chosen, "schema",
                     "Print the JSON Schema of scenario files, for editors, or their reference",
                     [](const bool& wanted) {
                       print_out(wanted ? scenario_reference() : scenario_schema());
                       return 0;
                     });
  verb->add_flag("--reference", *reference,
                 "Print the reference as Markdown instead of the schema");
  verb->footer(
      "  baechi schema > scenarios/scenario.schema.json    # the repository's own copy\n"
      "  baechi schema --reference | less");
}

}  // namespace baechi
