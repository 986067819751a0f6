#include "sim/transform/training/data_parallel.h"

#include <memory>

#include "sim/enum_option.h"
#include "sim/error.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Data-parallel training: replicas of the placed step, which add up their gradients. One replica
/// is simulated, which stands for all; or all are.
/// Sources: DDP: Li et al., VLDB 2020; ZeRO: Rajbhandari et al., SC 2020; parameter servers: Li et
/// al., OSDI 2014; compression: Lin et al., ICLR 2018.
class DataParallel final : public Transform {
 public:
  explicit DataParallel(Options& o) {
    constexpr std::int64_t most = 1'000'000;
    DataParallelOptions& p = options_;
    p.replicas = o.get("replicas", std::int64_t{8}, "how many train together", 1, most);
    p.nodes = o.get("nodes", p.nodes, "machines that they are spread over evenly", 1, most);
    p.mode = read_enum(o, "mode", p.mode, "how gradients are put together");
    p.send = read_enum(o, "send", p.send, "when gradients are sent");
    if (p.mode == Synchronisation::after && p.send == Sending::beside)
      o.mistake("send", "mode after sends gradients after the backward pass; mode ddp beside it");
    p.bucket = o.get("bucket", p.bucket, "gradients are sent in buckets of at least this size");
    p.first_bucket = o.get("first_bucket", p.first_bucket, "the same of the first bucket");
    p.simulate_all =
        o.get("simulate", {"one", "all"},
              "one replica, which stands for all; or all, each on devices of its own, which the "
              "cluster must have") == "all";
    p.compress = o.get("compress", p.compress,
                       "share of the bytes that is sent, after an op that reads and writes the "
                       "gradients twice",
                       1e-6, 1.0);
    p.fill = o.get("fill", p.fill,
                   "rate at which an op copies the gradients into their bucket before it is sent; "
                   "0: they are sent from where they are");
    p.empty = o.get("empty", p.empty, "rate at which an op copies them back; 0: they are not");
    const bool copies = p.fill > Bandwidth{} || p.empty > Bandwidth{};
    if (copies && p.sends_each_pass())
      o.mistake("mode",
                "zero2 and zero3 keep shares of gradients, which 'fill' and 'empty' do not copy");
    if (copies && p.compress < 1.0)
      o.mistake("compress", "it makes what is sent of the gradients: drop 'fill' and 'empty'");
    p.before_sum = o.get("before_sum", p.before_sum,
                         "bytes that an op moves in the device's memory for each byte of gradients "
                         "before they are sent: FSDP's flat parameters join, cast and divide them",
                         0.0, 100.0);
    p.after_gather = o.get(
        "after_gather", p.after_gather,
        "of mode zero3: the same for each byte of weights after they are gathered", 0.0, 100.0);
    if (p.after_gather > 0.0 && p.mode != Synchronisation::zero3)
      o.mistake("after_gather", "only zero3 gathers weights where they are read");
    p.broadcasts = o.get("broadcasts", p.broadcasts,
                         "of modes zero1 and zero2: new weights go by a broadcast from each "
                         "replica that has a share, one after the other, and not by one gather");
    if (p.broadcasts && p.mode != Synchronisation::zero1 && p.mode != Synchronisation::zero2)
      o.mistake("broadcasts", "only zero1 and zero2 share out new weights");
    p.gradients =
        o.get("gradients", p.gradients,
              "of a graph without gradients: their share of the bytes of weights", 0.0, 1e3);
    p.stateless = o.get("stateless", p.stateless,
                        "the optimizer keeps no state: of a graph that does not tell weights from "
                        "state, all is weights");
    p.servers =
        o.get("servers", p.servers,
              "of mode ps, each with a link like a replica's; 0: as many as replicas", 0, most);
    p.sharing =
        o.get("sharing", p.sharing,
              "collectives like each of these, of devices that are not simulated, which use "
              "the network of the same machines at the same time",
              1, most);
    p.per_gradient =
        o.get("per_gradient", p.per_gradient,
              "time of the framework for each op whose gradients it puts into a bucket, in which "
              "the device waits, also for one replica: 15 us for PyTorch's DDP with a framework "
              "thread that is the bottleneck, else 0");
    p.group = o.get("group", p.group,
                    "replicas that divide what zero1, zero2 or zero3 divide; groups add up their "
                    "gradients (hybrid sharding); 0: all",
                    0, most);
    p.expert = o.get("expert", p.expert,
                     "replicas that share experts, of which each has a part: ops with a name like "
                     "*/expert_*",
                     1, most);
    if (p.group > 0 && (p.mode < Synchronisation::zero1 || p.replicas % p.group != 0))
      o.mistake("group", fmt::format("{} replicas in mode {} are not divided into groups of {}",
                                     p.replicas, to_text(p.mode), p.group));
    if (p.replicas % p.expert != 0 || (p.group > 0 && p.expert > 1))
      o.mistake("expert", fmt::format("{} replicas{} are not divided by {}", p.replicas,
                                      p.group > 0 ? " in groups" : "", p.expert));
    if (p.expert > 1 && p.simulate_all) o.mistake("expert", "replicas then differ: simulate one");
    if (p.replicas % p.nodes != 0)
      o.mistake("nodes", fmt::format("{} replicas are not the same number on each of {} machines",
                                     p.replicas, p.nodes));
  }

  Transformed apply(const OpGraph& graph) const override {
    if (options_.replicas == 1 || graph.num_ops() == 0) return same_ops(graph);
    return same_ops(with_shares(graph, options_));
  }

  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    if (options_.alone() || graph.num_ops() == 0) return {graph, device};
    std::vector<OpId> joined;
    PlacedStep one = synchronised(graph, device, options_, joined);
    return options_.simulate_all ? replicated(one, options_.replicas, joined) : std::move(one);
  }

  std::string no_pipeline(StreamedBy pipeline) const override {
    if (options_.replicas > 1 && pipeline.both_ways)
      return "data_parallel: a chunk's gradients are added up by its two devices, and not by "
             "replicas of them";
    if (options_.replicas > 1 && options_.fill > Bandwidth{})
      return "data_parallel: 'fill' copies gradients in the update pass, when the buckets of a "
             "pipeline have gone";
    return "";
  }

  /// Updates that hold a share of the optimizer's state would get whole master weights.
  bool stands_behind(std::string_view other) const override {
    return other == "precision" && options_.shares_optimizer() > options_.shares_weights();
  }

  std::int64_t devices() const override { return options_.simulate_all ? options_.replicas : 1; }

 private:
  DataParallelOptions options_;
};

}  // namespace

bool is_expert(const OpGraph& graph, OpId v) {
  return graph.name(v).find("/expert_") != std::string_view::npos;
}

std::unique_ptr<Transform> make_data_parallel(Options& o) {
  return std::make_unique<DataParallel>(o);
}

}  // namespace baechi
