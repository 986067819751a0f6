/// What a policy chose in one pass, with all that its gradient needs.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/learned/network.h"
#include "sim/random.h"

namespace baechi::learned {

/// Chances from scores (softmax); `chances` [scores].
void chances_of(std::span<const double> scores, std::span<double> chances);
/// One of them, drawn; the last if roundings leave nothing.
std::size_t drawn(std::span<const double> chances, Random& random);
/// The same among all but `not_this`, of at least two.
std::size_t drawn_elsewhere(std::span<const double> chances, std::size_t not_this, Random& random);
/// Adds to `scores` the gradient of -advantage * log(chance of `choice`) - entropy * (entropy of
/// the chances), times `scale`. `logs`: room.
void choice_gradient(std::span<const double> chances, std::size_t choice, double advantage,
                     double entropy, double scale, std::span<double> scores,
                     std::vector<double>& logs);

/// Choices among devices, in the order in which they are made: of each the unit, the devices'
/// features and chances, and which was taken. Room is kept from pass to pass.
class Choices {
 public:
  explicit Choices(Network network);

  const Network& network() const { return network_; }
  void clear();
  std::size_t size() const { return all_.size(); }
  /// One more choice: the chances of the devices that `unit` may go to, whose features are given
  /// [devices, Shape::device_features]. Valid until the next call. take() says which it was.
  std::span<const double> offer(std::span<const double> weights, const Embedding& embedding,
                                std::size_t unit, std::span<const double> features);
  void take(std::size_t which) { all_.back().taken = static_cast<std::uint32_t>(which); }

  /// Finds the chances of choice `i` again, were the weights these.
  void score_again(std::size_t i, std::span<const double> weights, const Embedding& embedding);
  double surprise(std::size_t i) const;  ///< -log(chance of what was taken)
  double entropy(std::size_t i) const;   ///< of the chances
  /// Adds the gradient of choice_gradient() for choice `i`, as Network::score_gradient() does.
  void add_gradient(std::size_t i, std::span<const double> weights, const Embedding& embedding,
                    double advantage, double entropy, double scale, std::span<double> gradient,
                    std::span<double> keys);

 private:
  struct Choice {
    std::uint32_t unit = 0, taken = 0;
    std::size_t first = 0, devices = 0;  // into chances_
  };
  std::span<const double> features_of(const Choice& c) const;
  std::span<double> find_chances(const Choice& c, std::span<const double> weights,
                                 const Embedding& embedding);

  Network network_;
  std::vector<Choice> all_;
  std::vector<double> chances_, features_, scores_, logs_;
};

}  // namespace baechi::learned
