#include "scenarios/read/catalogue.h"

#include <filesystem>
#include <fstream>

#include "scenarios/read/device_table.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/yaml.h"
#include "traces/generate/config.h"

namespace baechi {
namespace {

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

CatalogueSection device_section() {
  CatalogueSection section{"devices", {}};
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

CatalogueSection link_section() {
  CatalogueSection section{"links", {}};
  for (const auto& [name, model] : built_in_devices().links)
    section.items.push_back(
        {name,
         fmt::format("{}, {}", to_text(model.link.bandwidth), to_text(model.link.latency)),
         model.source,
         {}});
  return section;
}

CatalogueSection block_section(std::string name, const std::map<std::string, SectionModel>& kinds) {
  CatalogueSection section{std::move(name), {}};
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
CatalogueSection file_section(std::string name, const std::string& folder, const auto& name_of) {
  CatalogueSection section{std::move(name), {}, "none below ./" + folder};
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
CatalogueSection scenario_section() {
  return file_section("scenarios", "scenarios/examples", [](const std::filesystem::path& path) {
    return path.extension() == ".yaml" ? path.stem().string() : std::string();
  });
}

/// The names that `baechi paper NAME` accepts.
CatalogueSection paper_section() {
  return file_section("papers", "scenarios/papers", [](const std::filesystem::path& path) {
    return path.filename() == "paper.yaml" ? path.parent_path().filename().string() : std::string();
  });
}

/// The names that are taken for a model, with options behind ":".
CatalogueSection model_section() {
  CatalogueSection section{"models", {}};
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

}  // namespace

std::vector<CatalogueSection> catalogue_sections() {
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

CatalogueSection take_common_options(std::vector<CatalogueSection>& sections) {
  CatalogueSection common{"common_options", {}};
  for (CatalogueSection& section : sections) {
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

}  // namespace baechi
