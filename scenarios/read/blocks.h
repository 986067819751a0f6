/// Reads the blocks of a scenario.
#pragma once
#include <string>
#include <vector>

#include "scenarios/read/device_table.h"
#include "scenarios/read/scenario.h"
#include "sim/error.h"

namespace baechi {

/// `block` as the options of `owner`, without the keys in `except`, with every ${NAME} in texts
/// replaced. Relative paths are relative to `base`. Throws InputError if `block` is neither a
/// mapping nor empty.
Options options_of(const Options::Value& block, std::string owner, const std::string& base,
                   const std::vector<std::string>& except = {});

/// Each adds mistakes to `mistakes`. After a mistake its result must not be used.
GraphChoice read_graph(const Options::Value& block, const std::string& base, Mistakes& mistakes);
ClusterChoice read_cluster(const Options::Value& block, const std::string& base,
                           const DeviceTable& kinds, Mistakes& mistakes);
std::vector<TransformChoice> read_transforms(const Options::Value& block, const std::string& base,
                                             Mistakes& mistakes);
ProfileChoice read_profile(const Options::Value& block, Mistakes& mistakes);
CalibrationChoice read_calibration_block(const Options::Value& block, const std::string& base,
                                         Mistakes& mistakes);
EngineOptions read_engine(const Options::Value& block, Mistakes& mistakes);
std::vector<PlacerChoice> read_placers(const Options::Value& block, const std::string& base,
                                       Mistakes& mistakes);
/// NAME, {NAME: {option: value, ...}} or a list of them. An option with a list of values makes a
/// measure of each value; without a block, the default measure.
std::vector<MeasureChoice> read_measures(const Options::Value& block, const std::string& base,
                                         Mistakes& mistakes);
std::vector<std::uint64_t> read_seeds(const Options::Value& block, Mistakes& mistakes);
CodesignChoice read_codesign(const Options::Value& block, const std::string& base,
                             Mistakes& mistakes);
ReportChoice read_report(const Options::Value& block, Mistakes& mistakes);

/// The transform that `choice` names. Throws InputError as make_transform() does.
TransformChoice made_transform(Choice choice);

/// The keys of each block that has fixed keys, for the reference and the schema.
struct BlockKeys {
  std::string block;  ///< "cluster.devices"
  std::string help;
  std::vector<Options::Declared> keys;
  std::vector<std::string> needed;
};
std::vector<BlockKeys> block_keys();

}  // namespace baechi
