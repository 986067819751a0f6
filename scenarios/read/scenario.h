/// One experiment as plain data: everything a scenario file or a command line says, nothing it does
/// not.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "placers/placer.h"
#include "sim/cluster/calibrated_costs.h"
#include "sim/cluster/device_model.h"
#include "sim/cluster/original_costs.h"
#include "sim/names.h"
#include "sim/options.h"
#include "sim/problem/engine_options.h"
#include "sim/transform/transform.h"

namespace baechi {

/// "this kind of thing, with these options": how a file names a generator, importer, transform or
/// placer.
struct Choice {
  std::string name;  ///< as in the registry
  Options options;
  std::string where{};  ///< "scenarios/first.yaml:12:5", for messages
  std::string text{};   ///< with its options, as on the command line: "m_sct:threshold=0.2"
  std::string label{};  ///< the name, or the text where two share the name
};

/// A placer of a scenario, made and thereby checked.
struct PlacerChoice : Choice {
  std::shared_ptr<const Placer> placer{};
};

/// A transform of a scenario, made and thereby checked.
struct TransformChoice : Choice {
  std::shared_ptr<const Transform> transform{};
  TransformUse use{};
};

/// Where the graph comes from: a generator's name, or a file.
struct GraphChoice {
  std::optional<Choice> generate;
  std::string file;      ///< to import, if not generated
  std::string importer;  ///< "" lets the file's content choose
  Options import_options;
  std::string where;
  std::string text;  ///< the block as one line: equal texts, equal graphs
};

/// `count` devices alike.
struct DeviceChoice {
  std::size_t count = 1;
  std::string name = "gpu";  ///< devices are numbered through the cluster: gpu0, gpu1, ...
  std::string kind;          ///< which of the trace's times apply; "" for its first
  Bytes memory{};
  double speed = 1.0;
  std::shared_ptr<const DeviceModel> model{};  ///< of `kind`, null if that names no known one

  Bytes usable(double fraction) const { return fraction == 1.0 ? memory : fraction * memory; }
};

/// Both directions between every device of group `from` and every one of group `to` (positions in
/// ClusterChoice::devices; equal: inside the group).
struct LinkChoice {
  std::size_t from = 0, to = 0;
  Link link{};
};

/// Costs as they were measured of a machine.
struct CalibrationChoice {
  std::shared_ptr<const Calibration> measured{};  ///< null: plain costs
  CalibrationUse use{};
  std::string file{};
};

inline constexpr std::size_t most_devices = 1024;  ///< of a cluster; links are a square of it

struct ClusterChoice {
  std::vector<DeviceChoice> devices;
  double memory_fraction = 1.0;           ///< of every device's memory, rounded down to a byte
  Link link{};                            ///< where `links` says nothing
  std::vector<LinkChoice> links;          ///< later ones win
  std::optional<OriginalCosts::Fit> fit;  ///< transfers by Baechi's rounded fit, not by `link`
  CalibrationChoice calibration;
};

/// What placers know of the costs.
struct ProfileChoice {
  std::optional<Transfers> transfers{};  ///< what they take engine.transfers to be
  double error = 0.0;  ///< they see times off by a factor uniform in 1 +- this, by the run's seed
};

/// One point of a file, to which it refers.
struct Scenario {
  const std::string& name;
  const GraphChoice& graph;
  const std::vector<TransformChoice>& transforms;  ///< applied in order
  const ClusterChoice& cluster;
  const EngineOptions& engine;
  const ProfileChoice& profile;
  const std::vector<PlacerChoice>& placers;  ///< each is one run per seed
  const std::vector<std::uint64_t>& seeds;
  std::vector<std::string> at;  ///< its place in the sweep: a value per ScenarioFile::axes
};

/// Of which runs there are timelines.
enum class Timelines : std::uint8_t { none, best, all };
constexpr auto names_of(Timelines) {
  return std::to_array<Named<Timelines>>(
      {{Timelines::none, "none"}, {Timelines::best, "best"}, {Timelines::all, "all"}});
}

/// What the results hold.
struct ReportChoice {
  bool placements = true;                 ///< every placement, in results.sqlite
  std::size_t pictures = 40;              ///< steps that report.html can draw, at most
  Timelines timelines = Timelines::none;  ///< as files: of each point's fastest run, or of all
};

/// Which variant of each block of a file makes a point.
struct PointBlocks {
  std::size_t graph = 0, transforms = 0, cluster = 0, engine = 0, profile = 0;
};

/// A scenario file, each block of it in all variants that the sweep makes. Every combination of
/// them is a point; points are numbered, graphs slowest, then as the blocks stand here.
struct ScenarioFile {
  std::string path;
  std::string text;               ///< as read
  std::vector<std::string> sets;  ///< what overrode it: "cluster.memory_fraction=0.5"
  std::string name;
  std::vector<std::string> axes;  ///< swept keys but placers and seeds; the last varies fastest
  std::vector<std::vector<std::string>> axis_values;  ///< [axes]: as written
  std::vector<GraphChoice> graphs;
  std::vector<std::vector<TransformChoice>> transforms;
  std::vector<ClusterChoice> clusters;
  std::vector<EngineOptions> engines;
  std::vector<ProfileChoice> profiles;
  std::vector<PlacerChoice> placers;
  std::vector<std::uint64_t> seeds{0};
  ReportChoice report;

  std::size_t num_points() const {  ///< 0 if anything in the file is wrong
    return graphs.size() * transforms.size() * clusters.size() * engines.size() * profiles.size();
  }
  std::size_t runs_per_point() const { return placers.size() * seeds.size(); }
  PointBlocks blocks(std::size_t point) const;
  Scenario point(std::size_t number) const;
};

}  // namespace baechi
