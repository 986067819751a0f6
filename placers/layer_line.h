/// What consecutive layers of a model need, and how they are divided among devices in a line.
#pragma once

#include "placers/model_layers.h"
#include "sim/problem/problem.h"

namespace baechi {

/// What layers hold on a device during the passes of one graph.
class LayerNeeds {
 public:
  LayerNeeds(const OpGraph& graph, const ModelLayers& layers) : graph_(graph), layers_(layers) {}

  /// The most bytes besides persistent ones that layers [first, last) hold on a device, where ops
  /// run in the order of their ids.
  Bytes transient(std::size_t first, std::size_t last) const;

 private:
  const OpGraph& graph_;
  const ModelLayers& layers_;
};

struct LineDevice {
  Bytes memory{};
  std::vector<Bytes> held{};      ///< [layers] for the whole step
  Bytes besides{};                ///< held, too, if it has any layer
  std::vector<Duration> times{};  ///< [layers]
};

class Line {
 public:
  /// `transient` [layers, layers + 1], by first and last layer.
  using Transient = std::function<Bytes(std::size_t first, std::size_t last)>;
  Line(std::vector<LineDevice> devices, std::size_t layers, Transient transient)
      : devices_(std::move(devices)), layers_(layers), transient_(std::move(transient)) {}

  /// What layers [first, last) need on device `d`.
  Bytes need(std::size_t d, std::size_t first, std::size_t last) const;
  /// [devices + 1] The first layer of each device, if each takes as many as fit and the last what
  /// is left. If needs grow with layers, no division fits where this one does not.
  std::vector<std::size_t> filled() const;
  Bytes lacking() const;  ///< of the last device with filled(); <= 0: it fits
  /// [devices + 1] The first layer of each device: the division within memory with the least sum of
  /// times, and of a `hop` between any two devices with layers; ties: the least time of the
  /// busiest. Nothing if none fits.
  std::optional<std::vector<std::size_t>> divided(Duration hop) const;

 private:
  std::vector<LineDevice> devices_;
  std::size_t layers_;
  Transient transient_;
};

}  // namespace baechi
