/// One pass of a policy over a graph: a device for each block, in list order.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "placers/learned/environment.h"
#include "placers/learned/network.h"
#include "placers/learned/walk.h"
#include "sim/random.h"

namespace baechi::learned {

/// The network for lists: its shape follows from what it is told.
Network list_network();
/// [device_features] The rule that it begins with, in place of a random last layer alone: the
/// earlier a device would end the block, the likelier.
std::vector<double> list_rule();

/// Chances from scores (softmax); `chances` [scores].
void chances_of(std::span<const double> scores, std::span<double> chances);
/// One of them, drawn; the last if roundings leave nothing.
std::size_t drawn(std::span<const double> chances, Random& random);
/// Adds to `scores` the gradient of -advantage * log(chance of `choice`) - entropy * (entropy of
/// the chances), times `scale`.
void choice_gradient(std::span<const double> chances, std::size_t choice, double advantage,
                     double entropy, double scale, std::span<double> scores);

/// Passes over one environment. Keeps what the last pass chose, for its gradient. For one thread.
class Episode {
 public:
  Episode(const Environment& environment, const Network& network);  ///< both outlive this

  /// Each block goes where the policy says: drawn by `random`, or, without it, to the device of the
  /// greatest chance; ties: the first. The devices stay valid until the next pass.
  const BlockDevices& act(std::span<const double> weights, const Embedding& embedding,
                          Random* random);
  /// Each block goes where `teacher` says.
  const BlockDevices& follow(std::span<const double> weights, const Embedding& embedding,
                             const BlockDevices& teacher);

  /// Adds the last pass's gradients of choice_gradient() per choice, over the number of
  /// choices, as Network::score_gradient() does.
  void gradient(std::span<const double> weights, const Embedding& embedding, double advantage,
                double entropy, std::span<double> gradient, std::span<double> keys) const;
  /// The last pass's mean of -log(chance of what was chosen).
  double surprise() const;

 private:
  struct Choice {
    std::uint32_t block = 0, choice = 0;
    std::size_t first_device = 0, devices = 0;  // into chances_
  };
  void pass(std::span<const double> weights, const Embedding& embedding, Random* random,
            const BlockDevices* teacher);

  const Network& network_;
  Walk walk_;
  std::vector<Choice> choices_;
  std::vector<double> chances_, features_, scores_;
};

}  // namespace baechi::learned
