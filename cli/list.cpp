#include <fmt/ranges.h>

#include "cli/arguments.h"
#include "cli/output.h"
#include "scenarios/read/catalogue.h"

namespace baechi {
namespace {

/// The names of each section, a screen in all.
std::string overview(const std::vector<CatalogueSection>& all) {
  constexpr std::size_t indent = 19;
  std::string text;
  for (const CatalogueSection& section : all) {
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
std::string table(const CatalogueSection& section) {
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

std::string markdown(const std::vector<CatalogueSection>& chosen) {
  std::string text;
  for (const CatalogueSection& section : chosen) {
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

nlohmann::ordered_json json(const std::vector<CatalogueSection>& chosen) {
  using Json = nlohmann::ordered_json;
  Json answer = Json::object();
  for (const CatalogueSection& section : chosen) {
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

/// Removes all items but the one called `name`. Throws InputError with the known names if there is
/// none.
template <typename Item>
void keep(std::vector<Item>& items, const std::string& name, std::string_view verb) {
  const std::vector<std::string> known = entry_names(items);
  std::erase_if(items, [&name](const Item& item) { return item.name != name; });
  if (items.empty())
    throw InputError(fmt::format("{}: unknown name '{}'{} (known: {})", verb, name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
}

int list(const std::string& what, const std::string& name, const std::string& format) {
  std::vector<CatalogueSection> chosen = catalogue_sections();
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
