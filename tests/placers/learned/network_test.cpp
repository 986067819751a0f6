#include "placers/learned/network.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "placers/learned/arithmetic.h"
#include "placers/learned/episode.h"
#include "sim/random.h"
#include "tests/placers/learned/central_differences.h"

using namespace baechi;
using namespace baechi::learned;
using namespace baechi::testing;

namespace {

/// a -> b, a -> c, b -> d, c -> d, and e alone.
UnitGraph diamond_and_one(std::size_t features, Random& random) {
  UnitGraph graph;
  graph.units = 5;
  for (std::size_t i = 0; i < 5 * features; ++i) graph.features.push_back(random.uniform());
  graph.parents = {.begin = {0, 0, 1, 2, 4, 4}, .of = {0, 0, 1, 2}};
  graph.children = {.begin = {0, 2, 3, 4, 4, 4}, .of = {1, 2, 3, 3}};
  return graph;
}

}  // namespace

TEST_SUITE("placers/learned") {
  TEST_CASE("functions agree with the library's to the last places") {
    for (double x = -40.0; x < 40.0; x += 0.37) {
      CHECK(exponential(x) == doctest::Approx(std::exp(x)).epsilon(1e-15));
      CHECK(squashed(x) == doctest::Approx(std::tanh(x)).epsilon(1e-15));
      const double y = std::exp(x);
      CHECK(logarithm(y) == doctest::Approx(std::log(y)).epsilon(1e-15));
    }
    CHECK(exponential(0.0) == 1.0);
    CHECK(exponential(-1e9) == 0.0);
    CHECK(logarithm(1.0) == 0.0);
    CHECK(squashed(1e9) == 1.0);
  }

  /// Three choices among two or three devices, with an entropy bonus: every layer has a part in it,
  /// relu's two sides, means over no, one and two neighbours.
  TEST_CASE("the gradient of every weight is that of central differences") {
    Random random(7);
    const Network network({.unit_features = 3, .device_features = 2, .hidden = 6, .rounds = 2});
    const UnitGraph graph = diamond_and_one(3, random);
    std::vector<double> weights = network.initial(3);
    for (double& w : weights) w += 0.2 * (random.uniform() - 0.5);  // biases too
    struct Choice {
      std::size_t unit, choice;
      double advantage;
      std::vector<double> features;
    };
    std::vector<Choice> choices{{0, 1, 1.3, {}}, {3, 0, -0.7, {}}, {4, 2, 0.4, {}}};
    for (Choice& c : choices)
      for (std::size_t i = 0; i < 2 * (2 + c.unit % 2); ++i) c.features.push_back(random.uniform());
    choices[2].features.resize(6, 0.5);

    Embedding embedding;
    std::vector<double> gradient(network.num_weights(), 0.0), keys;
    const double entropy = 0.3;
    const auto loss = [&] {
      network.embed(weights, graph, embedding);
      double sum = 0.0;
      for (const Choice& c : choices) {
        std::vector<double> scores(c.features.size() / 2), chances(scores.size());
        network.score(weights, embedding, c.unit, c.features, scores);
        chances_of(scores, chances);
        sum -= c.advantage * std::log(chances[c.choice]);
        for (const double p : chances) sum += entropy * p * std::log(p);
      }
      return sum;
    };
    loss();
    keys.assign(embedding.keys.size(), 0.0);
    for (const Choice& c : choices) {
      std::vector<double> scores(c.features.size() / 2), chances(scores.size());
      network.score(weights, embedding, c.unit, c.features, scores);
      chances_of(scores, chances);
      std::vector<double> slopes(scores.size(), 0.0), logs;
      choice_gradient(chances, c.choice, c.advantage, entropy, 1.0, slopes, logs);
      network.score_gradient(weights, embedding, c.unit, c.features, slopes, gradient, keys);
    }
    const Embedding kept = embedding;
    network.embed_gradient(weights, graph, kept, keys, gradient);
    CHECK(std::ranges::count(gradient, 0.0) < static_cast<std::ptrdiff_t>(2 * gradient.size() / 3));
    CHECK(worst(weights, gradient, loss) < 1e-4);
  }

  TEST_CASE("equal scores are equal chances, and draws follow chances") {
    std::vector<double> chances(4);
    chances_of(std::vector<double>{1.0, 1.0, 1.0, 1.0}, chances);
    for (const double p : chances) CHECK(p == 0.25);
    chances_of(std::vector<double>{0.0, std::log(3.0)}, std::span(chances).first(2));
    CHECK(chances[1] == doctest::Approx(0.75));
    Random random(1);
    int second = 0;
    for (int i = 0; i < 10'000; ++i)
      second += static_cast<int>(drawn(std::span(chances).first(2), random));
    CHECK(second > 7300);
    CHECK(second < 7700);
  }
}
