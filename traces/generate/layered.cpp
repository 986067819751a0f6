#include "sim/random.h"
#include "traces/generator.h"

namespace baechi::generate {
namespace {

struct Layering {
  std::size_t ops = 0, width = 0;
  double degree = 0.0;
  std::uint64_t seed = 0;
  Duration compute{};
  Bytes output{}, persistent{}, temporary{};
  bool ties = false, training = false;
};

Layering read_layered(Options& o) {
  using namespace std::chrono_literals;
  Layering s;
  s.ops = static_cast<std::size_t>(o.get("ops", std::int64_t{2000}, "how many forward ops", 1));
  s.width = static_cast<std::size_t>(o.get("width", std::int64_t{64}, "ops of a layer", 1));
  s.degree = o.get("degree", 1.75, "mean number of ops an op reads from, 1 to 3", 1.0);
  s.seed =
      static_cast<std::uint64_t>(o.get("seed", std::int64_t{1}, "another seed, another graph"));
  s.compute = o.get("compute", Duration{20us}, "median op time");
  s.output = o.get("bytes", Bytes{48'000}, "median output");
  s.persistent = o.get("persistent", Bytes{64'000}, "median weights of an op");
  s.temporary = o.get("temporary", Bytes{16'000}, "median workspace of an op");
  s.ties = o.get("ties", false, "every op takes the median time");
  s.training =
      o.get("training", false, "a backward op of twice the time for each op, on the same device");
  constexpr std::size_t most_ops = 100'000'000;
  if (s.ops > most_ops) o.mistake("ops", fmt::format("more than {}", most_ops));
  if (s.width > most_ops) o.mistake("width", fmt::format("more than {}", most_ops));
  if (s.degree > 3.0) o.mistake("degree", "more than 3");
  o.finish();
  return s;
}

/// e^x by basic arithmetic only: the same on every machine, which std::exp need not be. Exact to 12
/// digits for |x| < 16; larger x do not occur.
double exponential(double x) {
  double term = 1.0, sum = 1.0;
  for (int i = 1; i < 12; ++i) sum += term *= x / 16.0 / i;
  for (int i = 0; i < 4; ++i) sum *= sum;
  return sum;
}

/// A log-normal sample with this median, at most 1000 times the median.
double skewed(Random& random, std::int64_t median, double spread) {
  return static_cast<double>(median) * std::clamp(exponential(spread * random.gauss()), 1e-3, 1e3);
}

/// Chooses the ops that `v`, which is not in the first layer, reads from: one in the layer before
/// and about the same column, others up to 8 layers back, mostly near. Returns how many of `chosen`
/// are set.
std::size_t choose_inputs(const Layering& s, Random& random, std::size_t v,
                          std::array<std::size_t, 3>& chosen) {
  const std::size_t layer = v / s.width, column = v % s.width;
  const double extra = (s.degree - 1.0) / 2.0;
  std::size_t wanted = 1;
  wanted += random.uniform() < extra ? 1U : 0U;
  wanted += random.uniform() < extra ? 1U : 0U;
  std::size_t count = 0;
  const auto near = [&](std::uint32_t reach) {
    return (column + reach * s.width + random.below(2 * reach + 1) - reach) % s.width;
  };
  for (std::size_t i = 0; i < wanted; ++i) {
    std::size_t back = 1;
    while (i > 0 && back < 8 && back < layer && random.uniform() < 0.4) ++back;
    std::size_t u = (layer - back) * s.width;
    if (i == 0)
      u += near(1);
    else if (random.uniform() < 0.7)
      u += near(4);
    else
      u += random.below(static_cast<std::uint32_t>(s.width));
    if (std::find(chosen.begin(), chosen.begin() + count, u) == chosen.begin() + count)
      chosen[count++] = u;
  }
  return count;
}

/// Adds a backward op for each forward op, the last one first. It reads the output of the forward
/// op and the gradients from the backward ops of its readers.
void add_backward(OpGraphBuilder& builder, const std::vector<Duration>& time,
                  const std::vector<Bytes>& output,
                  const std::vector<std::pair<OpId, OpId>>& reads) {
  const std::size_t n = time.size();
  const auto backward = [n](OpId v) { return static_cast<OpId>(2 * n - 1 - index(v)); };
  for (std::size_t v = n; v-- > 0;) {
    const auto forward = static_cast<OpId>(v);
    const std::string label(builder.name(forward));
    const OpId id =
        builder.add_op({.name = label + "_grad", .compute = 2 * time[v], .phase = Phase::backward});
    builder.set_forward(id, forward);
    builder.colocate(id, label);
    builder.add_edge(static_cast<TensorId>(v), id);
  }
  for (auto read = reads.rbegin(); read != reads.rend(); ++read) {
    const TensorId gradient =
        builder.add_tensor(backward(read->second), output[index(read->first)]);
    builder.add_edge(gradient, backward(read->first));
  }
}

}  // namespace

/// Layers of `width` ops; times and sizes are log-normal.
Trace make_layered(Options& options) {
  const Layering s = read_layered(options);
  Random random(s.seed);
  OpGraphBuilder builder;
  std::vector<std::pair<OpId, OpId>> reads;  // edges that the backward pass mirrors
  std::vector<Duration> time;
  std::vector<Bytes> output;
  const auto bytes = [&](Bytes median) {
    return Bytes{static_cast<std::int64_t>(skewed(random, median.count, 1.6))};
  };
  std::string name;
  for (std::size_t v = 0; v < s.ops; ++v) {
    name.clear();
    fmt::format_to(std::back_inserter(name), "op{}", v);
    const double ns = skewed(random, s.compute.count(), 1.1);
    OpSpec op{.name = name,
              .compute = s.ties ? s.compute : Duration{static_cast<std::int64_t>(ns)}};
    op.persistent = bytes(s.persistent);
    op.temporary = bytes(s.temporary);
    const OpId id = builder.add_op(op);
    const Bytes size = bytes(s.output);
    builder.add_tensor(id, size);  // the v-th tensor
    if (s.training) {
      builder.colocate(id, name);
      time.push_back(op.compute);
      output.push_back(size);
    }
    if (v < s.width) continue;
    std::array<std::size_t, 3> chosen{};
    const std::size_t count = choose_inputs(s, random, v, chosen);
    for (std::size_t i = 0; i < count; ++i) {
      builder.add_edge(static_cast<TensorId>(chosen[i]), id);
      if (s.training) reads.emplace_back(static_cast<OpId>(chosen[i]), id);
    }
  }
  if (s.training) add_backward(builder, time, output, reads);
  Trace trace{.name = fmt::format("layered-{}", s.ops), .source = fmt::format("seed {}", s.seed)};
  trace.graph = std::move(builder).build();
  return trace;
}

}  // namespace baechi::generate
