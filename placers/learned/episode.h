/// One pass of a policy over a graph: a device for each bundle, in list order.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "placers/learned/choices.h"
#include "placers/learned/environment.h"
#include "placers/learned/walk.h"

namespace baechi::learned {

/// The network for lists: its shape follows from what it is told.
Network list_network();
/// [device_features] The rule that it begins with, in place of a random last layer alone: the
/// earlier a device would end the bundle, the likelier.
std::vector<double> list_rule();

/// Passes over one environment. Keeps what the last pass chose, for its gradient. For one thread.
class Episode {
 public:
  Episode(const Environment& environment, Network network);  ///< `environment` outlives this

  /// Each bundle goes where the policy says: drawn by `random`, or, without it, to the device of
  /// the greatest chance; ties: the first. The devices stay valid until the next pass.
  const BundleDevices& act(std::span<const double> weights, const Embedding& embedding,
                           Random* random);
  /// Each bundle goes where `base` says, but for those whose turns are from `begin` on and before
  /// `end`: they are drawn, the first of them that can go elsewhere among its other devices.
  /// Leaves nothing for gradient() and surprise().
  const BundleDevices& redraw(std::span<const double> weights, const Embedding& embedding,
                              const BundleDevices& base, std::size_t begin, std::size_t end,
                              Random& random);
  /// Each bundle goes where `teacher` says.
  const BundleDevices& follow(std::span<const double> weights, const Embedding& embedding,
                              const BundleDevices& teacher);

  /// Adds the last pass's gradients of choice_gradient() per choice, over the number of
  /// choices, as Network::score_gradient() does.
  void gradient(std::span<const double> weights, const Embedding& embedding, double advantage,
                double entropy, std::span<double> gradient, std::span<double> keys);
  /// The last pass's mean of -log(chance of what was chosen).
  double surprise() const;

 private:
  void pass(std::span<const double> weights, const Embedding& embedding, Random* random,
            const BundleDevices* teacher);

  Walk walk_;
  Choices choices_;
};

}  // namespace baechi::learned
