/// The network of a policy: messages between the units of a graph, then a score for each device
/// that a unit may go to. Gradients are written by hand.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baechi::learned {

/// What a network reads and how large it is.
struct Shape {
  std::size_t unit_features = 0;
  std::size_t device_features = 0;
  std::size_t hidden = 32;  ///< at most Network::most_hidden
  std::size_t rounds = 3;   ///< of messages

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Rows of neighbours: those of row i are at [begin[i], begin[i + 1]).
struct Neighbours {
  std::vector<std::uint32_t> begin{0}, of{};
  std::span<const std::uint32_t> at(std::size_t i) const {
    return {of.data() + begin[i], of.data() + begin[i + 1]};
  }
};

/// The units of a graph as the network sees them.
struct UnitGraph {
  std::size_t units = 0;
  std::vector<double> features;  ///< [units, Shape::unit_features]
  Neighbours parents, children;
};

/// What the network makes of all units, with all that the gradients need.
struct Embedding {
  std::vector<std::vector<double>> hidden;             ///< [rounds + 1][units, hidden], after relu
  std::vector<std::vector<double>> parents, children;  ///< [rounds][units, hidden]: means
  std::vector<double> mean;                            ///< [hidden]: of the last layer's units
  std::vector<double> keys;  ///< [units, hidden]: the units' part of the scorer's hidden layer
};

/// The layers:
///   h0 = relu(x We + be)
///   h' = relu(h Ws + mean(h of parents) Wi + mean(h of children) Wo + b), each round its own
///   key = hK U + mean(hK of all units) G + c, per unit
///   score = relu(key + f V) . w + f . s, per unit and device, f the device's features for this
///   unit.
/// A unit without parents has zeros for their mean. Sums run in one order, so that the same numbers
/// come out on any number of threads.
class Network {
 public:
  static constexpr std::size_t most_hidden = 64;

  explicit Network(const Shape& shape);

  const Shape& shape() const { return shape_; }
  std::size_t num_weights() const { return num_weights_; }
  /// Weights to begin with: uniform, as wide as keeps the variance from layer to layer (He et al.,
  /// ICCV 2015); biases 0, the last layer small, and s as given: a rule to begin with. `rule`
  /// [device_features], or empty: zeros.
  std::vector<double> initial(std::uint64_t seed, std::span<const double> rule = {}) const;

  void embed(std::span<const double> weights, const UnitGraph& graph, Embedding& out) const;
  /// The scores of the `devices` devices for `unit`, given their features [devices,
  /// device_features]. `scores` [devices].
  void score(std::span<const double> weights, const Embedding& embedding, std::size_t unit,
             std::span<const double> features, std::span<double> scores) const;

  /// Adds to `gradient` [num_weights] and to `keys` [units, hidden], the gradient of
  /// Embedding::keys, what follows from that of score()'s scores.
  void score_gradient(std::span<const double> weights, const Embedding& embedding, std::size_t unit,
                      std::span<const double> features, std::span<const double> scores,
                      std::span<double> gradient, std::span<double> keys) const;
  /// Adds to `gradient` what follows from the gradient of Embedding::keys.
  void embed_gradient(std::span<const double> weights, const UnitGraph& graph,
                      const Embedding& embedding, std::span<const double> keys,
                      std::span<double> gradient) const;

 private:
  /// What a unit's hidden layer is given for a device with such features. [hidden]
  void find_layer(std::span<const double> weights, const Embedding& embedding, std::size_t unit,
                  std::span<const double> device, std::span<double> layer) const;

  /// Where the weights of a layer are.
  struct Round {
    std::size_t own, parents, children, bias;
  };
  Shape shape_;
  std::size_t first_ = 0, first_bias_ = 0;
  std::vector<Round> rounds_;
  std::size_t key_ = 0, graph_ = 0, key_bias_ = 0, device_ = 0, last_ = 0, rule_ = 0;
  std::size_t num_weights_ = 0;
};

}  // namespace baechi::learned
