/// A scenario as values, and its reader.
#pragma once

#include "placers/interface/placer.h"
#include "sim/accelerator/accelerator.h"
#include "sim/cluster/calibration.h"
#include "sim/measure/measure.h"

namespace baechi {

/// The planner that divides a training step among the accelerators.
enum class CodesignPlanner : std::uint8_t { data_pipeline_tensor, piper, max_load };
constexpr auto names_of(CodesignPlanner) {
  return std::to_array<Named<CodesignPlanner>>(
      {{CodesignPlanner::data_pipeline_tensor, "data_pipeline_tensor",
        "equal stages, 1F1B with a flush, as in 'baechi plan'"},
       {CodesignPlanner::piper, "piper", "the placer piper: stages of any size, steady state"},
       {CodesignPlanner::max_load, "max_load",
        "the same without replicas and tensor parallelism: a pipeline of the least largest load"}});
}

enum class CodesignOrder : std::uint8_t { area, bound };
constexpr auto names_of(CodesignOrder) {
  return std::to_array<Named<CodesignOrder>>(
      {{CodesignOrder::area, "area", "by decreasing area, until `patience` in a row gain nothing"},
       {CodesignOrder::bound, "bound",
        "by a lower bound of the step, until no bound is below the best: the optimum"}});
}

/// The values of each parameter; every combination is an architecture.
struct DesignSpace {
  std::vector<std::int64_t> tensor_cores, vector_cores, width, depth;
  std::vector<Bytes> buffer;
};

struct CodesignChoice {
  std::string areas;  ///< path of the table of areas
  std::string where;  ///< of the section, for messages
  DesignSpace space;
  std::optional<Accelerator> reference;  ///< visited first; the result is compared with it
  std::optional<double> area;            ///< um2; nothing: the reference's
  double least_area = 0.0;               ///< as a fraction of `area`
  CodesignOrder order{};
  std::int64_t patience = 5;  ///< 0: all are visited
  CodesignPlanner planner{};
  std::int64_t batch = 1;  ///< samples of a step
  std::vector<std::int64_t> micro_batch{1}, tensor{1};
  AcceleratorRates rates{};
};

/// A generator, importer, transform, placer or measure, by name and with options.
struct Choice {
  std::string name;  ///< as in the registry
  Options options;
  std::string where{};  ///< "scenarios/first.yaml:12:5", for messages
  std::string text{};   ///< with its options, as on the command line: "m_sct:threshold=0.2"
  std::string label{};  ///< the name; the text if two entries share the name
};

/// A placer of a scenario; constructed, so its options are valid.
struct PlacerChoice : Choice {
  std::shared_ptr<const Placer> placer{};
};

/// A measure of a scenario; constructed, so its options are valid. Its label is its text.
struct MeasureChoice : Choice {
  std::shared_ptr<const Measure> measure{};
  std::string_view unit{};  ///< of the measure's value
};

/// A transform of a scenario; constructed, so its options are valid.
struct TransformChoice : Choice {
  std::shared_ptr<const Transform> transform{};
  TransformUse use{};
};

struct GraphChoice {
  std::optional<Choice> generate;
  std::string file;      ///< to import, if not generated
  std::string importer;  ///< "": chosen by the file's content
  Options import_options;
  std::string where;
  std::string text;  ///< the section as one line: equal texts, equal graphs
};

struct DeviceChoice {
  std::size_t count = 1;
  std::string name = "gpu";  ///< devices are numbered through the cluster: gpu0, gpu1, ...
  std::string kind;          ///< selects the trace's times; "": its first device type
  Bytes memory{};
  double speed = 1.0;
  std::shared_ptr<const DeviceModel> model{};  ///< entry of `kind` in the device table, or null
  std::string named{};  ///< the kind that was asked for, of which `kind` is a variant; else ""
  std::string typed{};  ///< the words that were read as `kind`, if they are no type's name; else ""

  Bytes usable(double fraction) const { return fraction == 1.0 ? memory : fraction * memory; }
};

/// The links, in both directions, between every device of group `from` and every device of group
/// `to`, or inside the group if they are equal. Groups are indices into ClusterChoice::devices.
struct LinkChoice {
  std::size_t from = 0, to = 0;
  Link link{};
};

struct NodeChoice {
  std::size_t count = 1;
  Node node{};
};

struct CalibrationChoice {
  std::shared_ptr<const Calibration> measured{};  ///< null: plain costs
  CalibrationUse use{};
  std::string file{};
};

inline constexpr std::size_t most_devices = 1024;  ///< of a cluster, which has a link per pair

/// The data to which a type's numbers were fitted, with the error on held-out rows.
struct Evidence {
  std::string of;      ///< "h100", "collectives h100_nccl"
  std::string fitted;  ///< begins with "unfitted" if there is none
};

struct ClusterChoice {
  std::vector<DeviceChoice> devices;
  double memory_fraction = 1.0;   ///< of every device's memory, rounded down to a byte
  Link link{};                    ///< between pairs that `links` does not name
  std::vector<LinkChoice> links;  ///< later ones win
  /// One per group of `devices`, whose count is over all these nodes; or empty. Replaces `link` and
  /// `links`.
  std::vector<NodeChoice> nodes;
  std::shared_ptr<const CollectiveModel> collectives{};  ///< null: hierarchical
  std::string collectives_text{};                        ///< equal texts, equal models
  std::optional<OriginalCosts::Fit>
      fit;  ///< Baechi's rounded fit of transfer times, replaces `link`
  CalibrationChoice calibration;
  std::vector<Evidence> evidence{};  ///< of the types of nodes, links and collectives
};

/// The costs as placers see them.
struct ProfileChoice {
  std::optional<Transfers> transfers{};  ///< the value that placers assume for engine.transfers
  double error = 0.0;  ///< times have an error factor uniform in 1 +- this, drawn by the run's seed
};

/// One point of a file, by reference.
struct Scenario {
  const std::string& name;
  const GraphChoice& graph;
  const std::vector<TransformChoice>& transforms;  ///< applied in order
  const ClusterChoice& cluster;
  const EngineOptions& engine;
  const ProfileChoice& profile;
  const std::vector<PlacerChoice>& placers;  ///< each places once per seed
  const std::vector<std::uint64_t>& seeds;
  const std::vector<MeasureChoice>& measures;  ///< one run per placement and measure
  std::vector<std::string> at;                 ///< [ScenarioFile::axes] the swept values
};

/// The runs that get timelines: none, the fastest of each point, or all.
enum class Timelines : std::uint8_t { none, best, all };
constexpr auto names_of(Timelines) { return enumerators<Timelines::all>(); }

struct ReportChoice {
  bool placements = true;                 ///< every placement, in results.sqlite
  std::size_t pictures = 40;              ///< maximum number of steps drawn in report.html
  Timelines timelines = Timelines::none;  ///< which runs get ID.PLACER.trace.json.gz
};

struct PointSections {
  std::size_t graph = 0, transforms = 0, cluster = 0, engine = 0, profile = 0;
};

/// A scenario file, with all variants of each section in the sweep. Every combination of variants
/// is a point. Points are numbered with graphs varying slowest, then transforms, clusters, engines
/// and profiles.
struct ScenarioFile {
  std::string path;
  std::string text;               ///< as read
  std::vector<std::string> sets;  ///< --set arguments: "cluster.memory_fraction=0.5"
  std::string name;
  std::vector<std::string> axes;  ///< swept keys except placers and seeds; the last varies fastest
  std::vector<std::vector<std::string>> axis_values;  ///< [axes] as written
  std::vector<GraphChoice> graphs;
  std::vector<std::vector<TransformChoice>> transforms;
  std::vector<ClusterChoice> clusters;
  std::vector<EngineOptions> engines;
  std::vector<ProfileChoice> profiles;
  std::vector<PlacerChoice> placers;
  std::vector<std::uint64_t> seeds{0};
  std::vector<MeasureChoice> measures;
  std::optional<CodesignChoice> codesign{};
  ReportChoice report;

  std::size_t num_points() const {  ///< 0 if the file has a mistake
    return graphs.size() * transforms.size() * clusters.size() * engines.size() * profiles.size();
  }
  std::size_t placements_per_point() const { return placers.size() * seeds.size(); }
  std::size_t runs_per_point() const { return placements_per_point() * measures.size(); }
  PointSections sections(std::size_t point) const;
  Scenario point(std::size_t number) const;
};

/// Reads the file and expands its sweep to points. `sets`: "KEY=VALUE", each applied to the file at
/// the dotted KEY before anything else; a key that is set is no longer swept. All mistakes are
/// added to `mistakes`; if there are any, points may be missing.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets,
                           Mistakes& mistakes);

/// Reads a scenario from text. Messages name `path`; paths in the text are relative to its folder.
ScenarioFile parse_scenario(std::string text, const std::string& path,
                            std::span<const std::string> sets, Mistakes& mistakes);

/// Throws InputError with all mistakes.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets = {});

/// Loads each of `paths` with the same `sets`. A repeated file is a mistake: its runs would be in
/// the results twice.
std::vector<ScenarioFile> load_scenarios(std::span<const std::string> paths,
                                         std::span<const std::string> sets, Mistakes& mistakes);

/// The top-level keys of a scenario, in the order of the reference.
struct TopKey {
  std::string_view key, help;
};
std::span<const TopKey> top_keys();

}  // namespace baechi
