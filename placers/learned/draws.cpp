#include "placers/learned/draws.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "placers/learned/episode.h"

namespace baechi::learned {
namespace {

class Drawer {
 public:
  Drawer(const Environment& environment, std::span<const double> weights, std::uint64_t seed,
         Found& found)
      : environment_(environment),
        weights_(weights),
        found_(found),
        episode_(environment, list_network()),
        evaluator_(environment.objective().on(environment.problem())),
        random_(seed ^ 0x5ca1ab1eU) {
    list_network().embed(weights, environment.graph(), embedding_);
  }

  void likeliest() {
    const BundleDevices& devices = episode_.act(weights_, embedding_, nullptr);
    const Score score = evaluator_->score(environment_.placement(devices));
    ++found_.evaluations;
    if (!found_.devices.empty() && !(score < found_.score)) return;
    found_.devices = devices;
    found_.score = score;
  }

  void begin() { evaluator_->begin(environment_.placement(found_.devices)); }

  /// After begin().
  void sample() {
    const bool plain = !found_.score.feasible() || random_.below(4) == 0;
    const std::size_t count = plain ? 1 : evaluator_->estimates();
    redrawn_.resize(std::max(redrawn_.size(), count));
    moves_.resize(count);
    for (std::size_t i = 0; i < count; ++i) redraw(redrawn_[i], moves_[i]);
    const std::size_t best = count == 1 ? 0 : evaluator_->best_estimate(moves_);
    moved_.clear();
    for (const OpMove& move : moves_[best]) moved_.push_back(move.op);
    const Score score = evaluator_->attempt(environment_.placement(redrawn_[best]), moved_);
    ++found_.evaluations;
    if (score > found_.score) return;
    evaluator_->keep();
    std::swap(found_.devices, redrawn_[best]);
    found_.score = score;
  }

 private:
  /// Draws a stretch of the best placement anew, into `devices`, and says what differs.
  void redraw(BundleDevices& devices, std::vector<OpMove>& moves) {
    const std::size_t bundles = environment_.num_bundles();
    const auto length = static_cast<std::size_t>(
        std::llround(std::pow(static_cast<double>(bundles), random_.uniform())));
    // Every stretch that has a turn among the bundles', so that the first is in as many as others.
    const std::size_t end = 1 + random_.below(static_cast<std::uint32_t>(bundles + length - 1));
    devices = episode_.redraw(weights_, embedding_, found_.devices, end - std::min(end, length),
                              end, random_);
    moves.clear();
    for (std::size_t b = 0; b < bundles; ++b)
      if (devices[b] != found_.devices[b])
        for (const OpId v : environment_.members(b)) moves.push_back({v, devices[b]});
  }

  const Environment& environment_;
  std::span<const double> weights_;
  Found& found_;
  Embedding embedding_;
  Episode episode_;
  std::unique_ptr<Evaluator> evaluator_;
  Random random_;
  std::vector<BundleDevices> redrawn_;
  std::vector<std::vector<OpMove>> moves_;  // [as many as are compared]
  std::vector<OpId> moved_;
};

}  // namespace

void draw_placements(const Environment& environment, std::span<const double> weights,
                     std::size_t samples, std::uint64_t seed, const std::atomic<bool>* stop,
                     Found& found) {
  Drawer drawer(environment, weights, seed, found);
  drawer.likeliest();
  if (samples > 0) drawer.begin();
  for (std::size_t i = 0; i < samples; ++i) {
    if (stopped(stop)) return;
    drawer.sample();
  }
}

}  // namespace baechi::learned
