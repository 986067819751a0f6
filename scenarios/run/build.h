/// Converts the values of a scenario to the inputs of placers and the engine.
#pragma once

#include "scenarios/read/scenario.h"
#include "traces/generate/config.h"
#include "traces/trace.h"

namespace baechi {

struct PreparedGraph {
  std::shared_ptr<const OpGraph> step;    ///< the graph that is simulated
  std::shared_ptr<const OpGraph> placed;  ///< the graph that placers see; often the same
  IdVector<OpId, OpId> mapped_op{};  ///< [step ops]: the op of `placed`; empty if the same graph
  Bytes needs{};                     ///< memory that the largest device must have
  std::string needs_why{};           ///< the message if it has less
  double batches = 1.0;  ///< batches of the trace in one step, a factor of its samples per step
  std::vector<std::shared_ptr<const Transform>> after_placing{};  ///< of the placed step, in turn
  std::chrono::nanoseconds transforming{};                        ///< wall clock
  std::chrono::nanoseconds transforming_processor{};              ///< processor time
  /// The device type of the times, if no type was given; else "".
  std::string assumed_kind{};
  /// A device type of the cluster that does not affect times, because the trace has one time per op
  /// and no work to compute others from; else "".
  std::string kind_without_times{};
};

/// Adds the roofline times of `default_device` to a graph with the ops' work but without times,
/// unless its times are in another file. Returns the device type; "" if it adds none.
std::string give_times(Trace& trace);

/// The same graph with one time per op, that on devices of type `kind`: from the trace, else from
/// the roofline. Throws InputError if there is neither.
OpGraph on_kind(const OpGraph& graph, const std::string& kind);

/// Throws InputError, with `source` as the place, if a step of `trace` on `cluster` would be
/// meaningless: the graph has no ops, or it has no times and timed() would not add any; or a part
/// of it has none (Untimed).
void require_times(const Trace& trace, const ClusterChoice& cluster, std::string_view source);

/// Devices that were typed as a type of the graph's own, such as "V100" in a graph with times for
/// it, are of that type and not of a known one with a name like it.
void take_own_types(ClusterChoice& cluster, const OpGraph& graph);

/// If `graph` has the ops' work, a copy with roofline times added for each device type of `cluster`
/// in the table that it has no times for, and for `default_device` if a device has no type and the
/// graph has no times at all. Otherwise `graph` itself.
std::shared_ptr<const OpGraph> timed(std::shared_ptr<const OpGraph> graph,
                                     const ClusterChoice& cluster);

/// The transforms of `choices`, applied in order, those of the model before the graph is timed.
/// Throws InputError if a transform with TransformUse::model comes after one with
/// TransformUse::placing.
PreparedGraph prepare(std::shared_ptr<const OpGraph> graph, const ClusterChoice& cluster,
                      std::span<const TransformChoice> choices);

/// The graph with roofline times for ops of known work that have no time on a device type of
/// `cluster`: transforms of the placed step add such ops.
OpGraph with_missing_times(OpGraph graph, const ClusterChoice& cluster);

/// The result of the transforms with TransformUse::placed on the placed step; nothing if there are
/// none.
std::optional<PlacedStep> after_placing(const PreparedGraph& graph, const Placement& placement);

/// Throws InputError as the engine's check_engine() does, and under Semantics::baechi if the step,
/// or the result of the transforms, has lanes or collectives, which the original does not support.
void check_engine(const PreparedGraph& graph, const Cluster& cluster, const EngineOptions& engine);

/// The placement of the step's ops, from a placement of the graph that placers see.
Placement expand(Placement placement, const PreparedGraph& graph);

/// Throws InfeasibleError if no device of `cluster` has the memory that the transforms need.
void require_needs(const PreparedGraph& graph, const Cluster& cluster);

/// Generates or reads the graph; without its own name it gets that of the file or the generator.
/// Throws InputError.
Trace load_graph(const GraphChoice& choice);
Trace load_generated(const Choice& choice);

/// A model that others published: a config.json of Hugging Face, its folder, a GGUF file, or a name
/// such as "Qwen/Qwen2.5-7B" or Ollama's "qwen2.5:7b-instruct-q4_K_M" (generate::known_model());
/// options may follow: ":key=value,...".
struct PublishedModel {
  std::string path;  ///< or the name in models.json
  std::string name, options;
  std::string repository{};  ///< on huggingface.co, or the folder or file
  std::string not_known{};   ///< "v0.4: the shapes are those of ...", if its release is not
  std::string ollama{};      ///< its name there, if it was asked by it: "qwen2.5:7b"
  generate::PublishedConfig config{};

  /// The generator that makes it, as parse_choice() reads it: "llama:config=PATH,key=value".
  std::string generator() const;
};
/// Nothing if `text` is another file, or a generator; without `generators` a bare "gpt2" is the
/// model, not the generator of this name.
std::optional<PublishedModel> published_model(const std::string& text, bool generators = true);
/// Throws InputError unless `text` begins with the name of a generator, or says that there is no
/// such file.
void require_generator(const std::string& text);

/// The graph of "llama:config=8b", a generator, or of a published model, where a graph file is
/// expected. Nothing if `text` is another file, or not even looks like the name of a generator: it
/// has a '/' or a '.' before any ':'. Throws InputError if the name is no generator's.
std::optional<Trace> load_generator_words(const std::string& text);

/// Devices in the order listed, memory scaled by the fraction. Throws InputError if there is no
/// device or more than `most_devices`, if a fraction, a speed or a link is out of range, if a link
/// names an unknown group, or if a calibration has too few partitions.
Cluster make_cluster(const ClusterChoice& choice);

/// OriginalCosts if the choice has a fit, else ProfiledCosts; with a calibration, CalibratedCosts
/// over them. Throws InputError if the graph has no times for a device type, or the calibration
/// none for its mode; with `check` also as check_limits() does.
std::unique_ptr<CostModel> make_costs(const ClusterChoice& choice, const OpGraph& graph,
                                      const Cluster& cluster, bool check = true);

}  // namespace baechi
