/// Reads the sections of a scenario.
#pragma once
#include <initializer_list>

#include "scenarios/read/device_table.h"
#include "scenarios/read/scenario.h"

namespace baechi {

/// `section` as the options of `owner`, without the keys in `except`, with every ${NAME} in texts
/// replaced. Relative paths are relative to `base`. Throws InputError if `section` is neither a
/// mapping nor empty.
Options options_of(const Options::Value& section, std::string owner, const std::string& base,
                   const std::vector<std::string>& except = {});

/// Each adds its mistakes to `mistakes`, after which its result must not be used.
GraphChoice read_graph(const Options::Value& section, const std::string& base, Mistakes& mistakes);
ClusterChoice read_cluster(const Options::Value& section, const std::string& base,
                           const KnownKinds& kinds, Mistakes& mistakes);
std::vector<TransformChoice> read_transforms(const Options::Value& section, const std::string& base,
                                             Mistakes& mistakes);
ProfileChoice read_profile(const Options::Value& section, Mistakes& mistakes);
CalibrationChoice read_calibration_section(const Options::Value& section, const std::string& base,
                                           Mistakes& mistakes);
EngineOptions read_engine(const Options::Value& section, Mistakes& mistakes);
std::vector<PlacerChoice> read_placers(const Options::Value& section, const std::string& base,
                                       Mistakes& mistakes);
/// Reads NAME, {NAME: {option: value, ...}} or a list of them. An option with a list of values
/// gives one measure per value; without a section, the default measure.
std::vector<MeasureChoice> read_measures(const Options::Value& section, const std::string& base,
                                         Mistakes& mistakes);
std::vector<std::uint64_t> read_seeds(const Options::Value& section, Mistakes& mistakes);
CodesignChoice read_codesign(const Options::Value& section, const std::string& base,
                             Mistakes& mistakes);
ReportChoice read_report(const Options::Value& section, Mistakes& mistakes);

/// The transform that `choice` names. Throws InputError as make_transform() does.
TransformChoice make_transform_choice(Choice choice);

/// The keys of each section that has fixed keys, for the reference and the schema.
struct SectionKeys {
  std::string section;  ///< "cluster.devices"
  std::string help;
  std::vector<Options::Declared> keys;
  std::vector<std::string> needed;
};
std::vector<SectionKeys> section_keys();

/// The options of `section`, parsed by `read`. Throws InputError on unknown options or bad values.
auto read_section(const Options::Value& section, const char* owner, auto read) {
  Options o = options_of(section, owner, "");
  auto result = read(o);
  o.finish();
  return result;
}

/// Adds a mistake for each of `keys` that `section` lacks.
void need(const Options::Value& section, std::string_view owner,
          std::initializer_list<std::string_view> keys, Mistakes& mistakes);

std::vector<Options::Declared> keys_of_reader(auto read) {
  Options o;
  read(o);
  return o.declared();
}

std::vector<SectionKeys> cluster_section_keys();
SectionKeys calibration_section_keys();
SectionKeys codesign_section_keys();

std::string calibration_yaml(const Calibration& calibration);

/// Throws InputError with path:line:column and all mistakes at once: another schema, a key that is
/// unknown or missing, a value that is no number.
Calibration parse_calibration(std::string_view text, const std::string& path);
Calibration read_calibration(const std::string& path);

}  // namespace baechi
