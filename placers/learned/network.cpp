#include "placers/learned/network.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/error.h"
#include "sim/random.h"

namespace baechi::learned {
namespace {

/// out [n, m] += in [n, k] times w [k, m].
void add_product(const double* in, const double* w, double* out, std::size_t n, std::size_t k,
                 std::size_t m) {
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = out + i * m;
    for (std::size_t j = 0; j < k; ++j) {
      const double x = in[i * k + j];
      if (x == 0.0) continue;  // half of what follows a relu
      const double* const weight = w + j * m;
      for (std::size_t o = 0; o < m; ++o) row[o] += x * weight[o];
    }
  }
}

/// The transposed of w [k, m], in `scratch`: its rows are read one after the other.
const double* transposed(const double* w, std::size_t k, std::size_t m,
                         std::vector<double>& scratch) {
  scratch.resize(k * m);
  for (std::size_t j = 0; j < k; ++j)
    for (std::size_t o = 0; o < m; ++o) scratch[o * k + j] = w[j * m + o];
  return scratch.data();
}

/// The gradients of add_product(): those of `w`, and, unless `in_gradient` is null, those of `in`.
void product_gradient(const double* in, const double* w, const double* out_gradient, std::size_t n,
                      std::size_t k, std::size_t m, double* w_gradient, double* in_gradient) {
  for (std::size_t i = 0; i < n; ++i) {
    const double* const row = out_gradient + i * m;
    for (std::size_t j = 0; j < k; ++j) {
      const double x = in[i * k + j];
      if (x == 0.0) continue;
      double* const weight = w_gradient + j * m;
      for (std::size_t o = 0; o < m; ++o) weight[o] += x * row[o];
    }
  }
  if (in_gradient == nullptr) return;
  std::vector<double> scratch;
  add_product(out_gradient, transposed(w, k, m, scratch), in_gradient, n, m, k);
}

void add_bias(const double* bias, double* out, std::size_t n, std::size_t m) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t o = 0; o < m; ++o) out[i * m + o] += bias[o];
}

void bias_gradient(const double* out_gradient, std::size_t n, std::size_t m, double* gradient) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t o = 0; o < m; ++o) gradient[o] += out_gradient[i * m + o];
}

void rectify(std::vector<double>& values) {
  for (double& x : values) x = x > 0.0 ? x : 0.0;
}

/// Zeroes the gradient where relu's output was 0.
void rectify_gradient(const std::vector<double>& values, std::vector<double>& gradient) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] <= 0.0) gradient[i] = 0.0;
}

/// The mean of the neighbours' rows.
void mean_of(const Neighbours& neighbours, const std::vector<double>& rows, std::size_t m,
             std::vector<double>& out) {
  const std::size_t n = neighbours.begin.size() - 1;
  out.assign(n * m, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = neighbours.at(i);
    for (const std::uint32_t from : at)
      for (std::size_t o = 0; o < m; ++o) out[i * m + o] += rows[from * m + o];
    if (at.size() > 1)
      for (std::size_t o = 0; o < m; ++o) out[i * m + o] /= static_cast<double>(at.size());
  }
}

void mean_gradient(const Neighbours& neighbours, const std::vector<double>& out_gradient,
                   std::size_t m, std::vector<double>& gradient) {
  const std::size_t n = neighbours.begin.size() - 1;
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = neighbours.at(i);
    const double share = at.empty() ? 0.0 : 1.0 / static_cast<double>(at.size());
    for (const std::uint32_t from : at)
      for (std::size_t o = 0; o < m; ++o) gradient[from * m + o] += share * out_gradient[i * m + o];
  }
}

}  // namespace

Network::Network(const Shape& shape) : shape_(shape) {
  const std::size_t h = shape.hidden;
  BAECHI_CHECK(h <= most_hidden, "{} hidden", h);
  const auto take = [&](std::size_t count) {
    const std::size_t begin = num_weights_;
    num_weights_ += count;
    return begin;
  };
  first_ = take(shape.unit_features * h);
  first_bias_ = take(h);
  for (std::size_t r = 0; r < shape.rounds; ++r) {
    Round round{};
    round.own = take(h * h);
    round.parents = take(h * h);
    round.children = take(h * h);
    round.bias = take(h);
    rounds_.push_back(round);
  }
  key_ = take(h * h);
  graph_ = take(h * h);
  key_bias_ = take(h);
  device_ = take(shape.device_features * h);
  last_ = take(h);
  rule_ = take(shape.device_features);
}

std::vector<double> Network::initial(std::uint64_t seed, std::span<const double> rule) const {
  std::vector<double> weights(num_weights_, 0.0);
  Random random(seed);
  const std::size_t h = shape_.hidden;
  const auto draw = [&](std::size_t begin, std::size_t count, std::size_t inputs, double scale) {
    const double width = scale * std::sqrt(6.0 / static_cast<double>(inputs));
    for (std::size_t i = 0; i < count; ++i)
      weights[begin + i] = width * (2.0 * random.uniform() - 1.0);
  };
  draw(first_, shape_.unit_features * h, shape_.unit_features, 1.0);
  for (const Round& round : rounds_) {
    draw(round.own, h * h, 3 * h, 1.0);
    draw(round.parents, h * h, 3 * h, 1.0);
    draw(round.children, h * h, 3 * h, 1.0);
  }
  draw(key_, h * h, 2 * h + shape_.device_features, 1.0);
  draw(graph_, h * h, 2 * h + shape_.device_features, 1.0);
  draw(device_, shape_.device_features * h, 2 * h + shape_.device_features, 1.0);
  draw(last_, h, h, 0.1);
  std::ranges::copy(rule, weights.begin() + static_cast<std::ptrdiff_t>(rule_));
  return weights;
}

void Network::embed(std::span<const double> weights, const UnitGraph& graph, Embedding& out) const {
  const std::size_t n = graph.units, h = shape_.hidden;
  const double* const w = weights.data();
  out.hidden.resize(shape_.rounds + 1);
  out.parents.resize(shape_.rounds);
  out.children.resize(shape_.rounds);
  for (std::vector<double>& layer : out.hidden) layer.assign(n * h, 0.0);
  add_product(graph.features.data(), w + first_, out.hidden[0].data(), n, shape_.unit_features, h);
  add_bias(w + first_bias_, out.hidden[0].data(), n, h);
  rectify(out.hidden[0]);
  for (std::size_t r = 0; r < shape_.rounds; ++r) {
    const Round& at = rounds_[r];
    const std::vector<double>& before = out.hidden[r];
    std::vector<double>& after = out.hidden[r + 1];
    mean_of(graph.parents, before, h, out.parents[r]);
    mean_of(graph.children, before, h, out.children[r]);
    add_product(before.data(), w + at.own, after.data(), n, h, h);
    add_product(out.parents[r].data(), w + at.parents, after.data(), n, h, h);
    add_product(out.children[r].data(), w + at.children, after.data(), n, h, h);
    add_bias(w + at.bias, after.data(), n, h);
    rectify(after);
  }
  out.mean.assign(h, 0.0);
  const double share = 1.0 / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t o = 0; o < h; ++o) out.mean[o] += share * out.hidden.back()[i * h + o];
  std::vector<double> of_graph(h, 0.0);
  add_product(out.mean.data(), w + graph_, of_graph.data(), 1, h, h);
  out.keys.assign(n * h, 0.0);
  for (std::size_t i = 0; i < n; ++i) std::ranges::copy(of_graph, out.keys.data() + i * h);
  add_product(out.hidden.back().data(), w + key_, out.keys.data(), n, h, h);
  add_bias(w + key_bias_, out.keys.data(), n, h);
}

void Network::find_layer(std::span<const double> weights, const Embedding& embedding,
                         std::size_t unit, std::span<const double> device,
                         std::span<double> layer) const {
  std::copy_n(embedding.keys.data() + unit * layer.size(), layer.size(), layer.data());
  add_product(device.data(), weights.data() + device_, layer.data(), 1, device.size(),
              layer.size());
}

void Network::score(std::span<const double> weights, const Embedding& embedding, std::size_t unit,
                    std::span<const double> features, std::span<double> scores) const {
  const std::size_t h = shape_.hidden, f = shape_.device_features;
  const double* const last = weights.data() + last_;
  alignas(64) std::array<double, most_hidden> room;  // a cache line: vectors cross none
  const auto layer = std::span(room).first(h);
  for (std::size_t d = 0; d < scores.size(); ++d) {
    find_layer(weights, embedding, unit, features.subspan(d * f, f), layer);
    double sum = 0.0;
    for (std::size_t o = 0; o < h; ++o) sum += layer[o] > 0.0 ? layer[o] * last[o] : 0.0;
    for (std::size_t i = 0; i < f; ++i) sum += features[d * f + i] * weights[rule_ + i];
    scores[d] = sum;
  }
}

void Network::score_gradient(std::span<const double> weights, const Embedding& embedding,
                             std::size_t unit, std::span<const double> features,
                             std::span<const double> scores, std::span<double> gradient,
                             std::span<double> keys) const {
  const std::size_t h = shape_.hidden, f = shape_.device_features;
  const double* const last = weights.data() + last_;
  alignas(64) std::array<double, most_hidden> room;  // a cache line: vectors cross none
  const auto layer = std::span(room).first(h);
  for (std::size_t d = 0; d < scores.size(); ++d) {
    find_layer(weights, embedding, unit, features.subspan(d * f, f), layer);
    for (std::size_t o = 0; o < h; ++o) {
      const double value = std::max(layer[o], 0.0);
      gradient[last_ + o] += scores[d] * value;
      layer[o] = value > 0.0 ? scores[d] * last[o] : 0.0;  // from here on its gradient
      keys[unit * h + o] += layer[o];
    }
    product_gradient(features.data() + d * f, nullptr, layer.data(), 1, f, h,
                     gradient.data() + device_, nullptr);
    for (std::size_t i = 0; i < f; ++i) gradient[rule_ + i] += scores[d] * features[d * f + i];
  }
}

void Network::embed_gradient(std::span<const double> weights, const UnitGraph& graph,
                             const Embedding& embedding, std::span<const double> keys,
                             std::span<double> gradient) const {
  const std::size_t n = graph.units, h = shape_.hidden;
  const double* const w = weights.data();
  double* const g = gradient.data();
  std::vector<double> after(n * h, 0.0);  // the gradient of hidden[r + 1]
  product_gradient(embedding.hidden.back().data(), w + key_, keys.data(), n, h, h, g + key_,
                   after.data());
  bias_gradient(keys.data(), n, h, g + key_bias_);
  std::vector<double> mean(h, 0.0), all_keys(h, 0.0);
  bias_gradient(keys.data(), n, h, all_keys.data());
  product_gradient(embedding.mean.data(), w + graph_, all_keys.data(), 1, h, h, g + graph_,
                   mean.data());
  const double share = 1.0 / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t o = 0; o < h; ++o) after[i * h + o] += share * mean[o];
  for (std::size_t r = shape_.rounds; r-- > 0;) {
    const Round& at = rounds_[r];
    rectify_gradient(embedding.hidden[r + 1], after);
    std::vector<double> before(n * h, 0.0);
    product_gradient(embedding.hidden[r].data(), w + at.own, after.data(), n, h, h, g + at.own,
                     before.data());
    mean.assign(n * h, 0.0);
    product_gradient(embedding.parents[r].data(), w + at.parents, after.data(), n, h, h,
                     g + at.parents, mean.data());
    mean_gradient(graph.parents, mean, h, before);
    mean.assign(n * h, 0.0);
    product_gradient(embedding.children[r].data(), w + at.children, after.data(), n, h, h,
                     g + at.children, mean.data());
    mean_gradient(graph.children, mean, h, before);
    bias_gradient(after.data(), n, h, g + at.bias);
    after = std::move(before);
  }
  rectify_gradient(embedding.hidden[0], after);
  product_gradient(graph.features.data(), nullptr, after.data(), n, shape_.unit_features, h,
                   g + first_, nullptr);
  bias_gradient(after.data(), n, h, g + first_bias_);
}

}  // namespace baechi::learned
