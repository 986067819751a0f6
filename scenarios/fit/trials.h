/// Tries one way after the other: divides a model among devices and simulates it.
#pragma once

#include "placers/layer_line.h"
#include "scenarios/fit/fit.h"

namespace baechi {

class FitGraphs;

/// Where parts of the model are that are not on GPUs.
struct Elsewhere {
  bool layers = false;                     ///< compute on the host, as many as necessary
  std::int64_t experts = 0;                ///< those of so many layers, the first, compute there
  std::optional<std::int64_t> prefetch{};  ///< weights of as many layers as necessary wait there
  bool optimizer = false;                  ///< updates are computed there
};

struct FitCase {
  FitVariant variant{};
  Elsewhere elsewhere{};
};

/// The part of a GPU's memory that vLLM takes, by default 0.9. The rest is for its CUDA graphs.
constexpr double vllm_memory_share = 0.95;

/// The type of collectives in devices.yaml that was measured over such links; "": none was.
/// Through host memory they are taken to be as fast as peer to peer over the same bus.
std::string collectives_over(std::string_view link);

class FitTrials {
 public:
  explicit FitTrials(const FitQuestion& question);

  /// The bytes that the case lacks; <= 0: it fits.
  Bytes lacking(const FitCase& asked) const;

  FitWay way(const std::string& name, FitCase asked);

  /// The largest value up to `most` in steps for which `asked`, changed by `set`, fits; 0: none.
  std::int64_t largest(FitCase asked, std::int64_t step, std::int64_t most,
                       std::int64_t FitVariant::* value) const;

  std::size_t gpus() const { return gpus_; }

  std::vector<Evidence> evidence;

 private:
  FitWay way_with(const std::string& name, const FitCase& asked);
  const ClusterChoice& cluster_of(const FitVariant& v) const {
    return clusters_[v.vllm ? 2 : v.flash ? 1 : 0];
  }
  /// The part of a GPU's memory `limit` that no op may take.
  Bytes reserve(const FitVariant& v, Bytes limit) const;
  Duration host_time(const FitVariant& v) const {
    return question_.model.writes ? cluster_of(v).devices.front().model->host_step : Duration{};
  }

  /// Evenly spread, so that copies overlap with layers that stay, on every GPU.
  static std::vector<bool> which_wait(const FitGraphs& graphs, std::size_t count);
  static Bytes waiting_bytes(const FitGraphs& graphs, std::size_t count);
  /// The bytes that the host lacks for `count` waiting layers; the last of those that it has no
  /// memory for go to `on_disk` [layers], if there is a disk.
  Bytes lacks_on_host(const FitCase& asked, const FitGraphs& graphs, std::size_t count,
                      std::vector<bool>* on_disk = nullptr) const;
  std::vector<bool> which_on_disk(const FitCase& asked, const FitGraphs& graphs,
                                  std::size_t count) const;

  /// The devices that hold layers: the host first, if layers may compute there.
  Line line(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
            const CostedGraph* costs) const;
  static std::vector<Duration> times(const FitGraphs& graphs, const CostedGraph* costs, DeviceId d);
  std::size_t least_waiting(const FitCase& asked, const FitGraphs& graphs) const;
  Bytes lacking(const FitCase& asked, const FitGraphs& graphs) const;

  /// Patterns of modules that wait, and those of them on the disk.
  struct Waiting {
    std::vector<std::string> modules{}, on_disk{};
  };
  Waiting waiting_modules(const FitCase& asked, const FitGraphs& graphs, std::size_t count) const;

  std::shared_ptr<const CostedGraph> costed(std::shared_ptr<const Trace> trace,
                                            const FitCase& asked, const Waiting& waiting) const;

  /// `device`: where each layer is. `borrowed`: experts on the host compute on their layer's
  /// device.
  StepResult step(std::shared_ptr<const Trace> trace, const ModelLayers& layers,
                  const FitCase& asked, const Waiting& waiting, const std::vector<DeviceId>& device,
                  EngineOptions engine = {}, bool borrowed = false) const;
  void simulate(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting, FitWay& way);

  /// The time of the prompt's parts. GPUs compute them, with copies of what is on the host, unless
  /// they are short. Source: llama.cpp, ggml-cuda (offload_op, min_batch_size).
  Duration prompt(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
                  std::vector<DeviceId> device) const;

  /// Says what the last device of the line would have to hold.
  void explain_lack(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
                    FitWay& way) const;

  const FitQuestion& question_;
  std::array<ClusterChoice, 3> clusters_;  ///< under llama.cpp, without and with flash, and vLLM
  std::size_t gpus_ = 0;
  std::vector<Bytes> limits_;  // [gpus_]
};

}  // namespace baechi
