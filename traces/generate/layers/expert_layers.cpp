#include "traces/generate/layers/expert_layers.h"

#include <cmath>

#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {

/// Bytes of a number that is in 16 bits before and after, halved by the precision. Forward: the
/// product of bias and weight 4, the sum 2 + 4 + 4, joined 4 + 4, cast 4 + 2. Backward: cast 2 + 4;
/// to the input 4 + 2, joined 2 + 2; to bias and weight each a product 4 + 4 and its sum 4.
ValueId weighted_bias(Model& model, std::string_view name, ValueId x) {
  const Value in = model.value(x);
  const std::int64_t n = elements(in.shape);
  Layer l{.kind = LayerKind::weighted_bias, .name = model.scoped(name), .inputs = {x}};
  const Shape biases{model.groups(), in.shape.back()};
  {
    const auto scope = model.scope(name);
    l.variables = {model.variable("biases", biases, Initializer::zeros)};
  }
  l.forward = {.flops = 2 * n, .traffic = bytes_of(28 / 2 * n)};
  l.input_gradient = {.flops = n, .traffic = bytes_of((6 + 6 + 4 + 12) / 2 * n)};
  l.variable_gradient = {.flops = 2 * n, .traffic = bytes_of(12 / 2 * n)};
  const ValueId y = model.output(l, in.shape);
  model.add(std::move(l));
  return y;
}

double Experts::sent() const {
  if (places == 0) return 1.0;
  const auto all = static_cast<double>(places), routes = static_cast<double>(top_k);
  return std::min(1.0, all * (1.0 - std::pow(1.0 - 1.0 / all, routes)) / routes);
}

namespace {

/// What a rank's experts make of their tokens: op by op, or all at once.
std::vector<ValueId> written_by(Model& model, const Experts& s, std::vector<ValueId> tokens,
                                const ExpertParts& parts) {
  if (s.grouped) model.set_groups(s.own(), s.read);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto module = model.module(s.grouped ? "expert_all" : fmt::format("expert_{}", i),
                                     s.grouped ? "MixtralExperts" : "MixtralExpert");
    tokens[i] = parts.network(tokens[i], s.inner / s.divided);
  }
  model.set_groups(1);
  return tokens;
}

/// x and what the expert makes of it that all tokens go to. Ranks of tensor parallelism divide it,
/// as any feed-forward network. Source: Megatron-LM, core/transformer/moe/shared_experts.py.
ValueId with_shared(Model& model, const Experts& s, ValueId normal, ValueId x,
                    const ExpertParts& parts) {
  const ValueId inside = split_to_ranks(model, "shared/split", normal, s.whole);
  ValueId y{};
  {
    const auto module = model.module("shared", "MixtralExpert");
    model.forget_layers(s.shared_again);
    y = parts.network(inside, s.shared_inner / s.whole.tensor);
    model.forget_layers(false);
    if (s.whole.tensor == 1) return add(model, "sum", parts.dropped(y), x);
  }
  y = sum_of_ranks(model, "shared/sum", y, s.whole);
  const auto module = model.module("shared_out", "MixtralResidual");
  return add(model, "sum", parts.dropped(y), x);
}

}  // namespace

ValueId experts_block(Model& model, const Experts& s, std::int64_t tokens_of_rank, ValueId x,
                      const ExpertParts& parts) {
  const double share = s.capacity_factor * static_cast<double>(tokens_of_rank * s.top_k) /
                       static_cast<double>(s.experts);
  auto capacity = static_cast<std::int64_t>(share);
  if (static_cast<double>(capacity) < share) ++capacity;
  const bool exchanged = s.ranks > 1 && s.read == 0;
  ValueId normal{}, read{}, routes{};
  std::vector<ValueId> tokens;
  {
    const auto module = model.module("router", "TopKRouter");
    model.forget_layers(s.norm_again && s.shared_inner == 0);
    normal = parts.norm(x);
    model.forget_layers(false);
    routes = route(model, "top_k", dense(model, "gate", normal, s.experts, s.bias), s.top_k);
    read = s.latent > 0 ? dense(model, "to_latent", normal, s.latent, false) : normal;
    tokens = exchanged || s.grouped
                 ? dispatch(model, "dispatch", read, routes, 1,
                            s.read > 0 ? tokens_of_rank * s.top_k : s.experts * capacity)
                 : dispatch(model, "dispatch", read, routes, s.experts, capacity);
  }
  if (s.shared_inner > 0) x = with_shared(model, s, normal, x, parts);
  const bool sorts = s.own() > 1 && s.places == 0;
  if (exchanged) {
    ValueId received =
        to_experts(model, "to_experts", tokens.front(), s.groups(), s.divided, s.sent());
    received = gather_to_expert(model, "to_parts", received, s.divided);
    tokens = {received};
    if (sorts) tokens = sort_to_experts(model, "sort", received, s.grouped ? 1 : s.own());
  }
  tokens = written_by(model, s, std::move(tokens), parts);
  if (exchanged) {
    const ValueId joined = sorts ? join_experts(model, "join", tokens) : tokens.front();
    const ValueId written = sum_of_expert(model, "from_parts", joined, s.divided);
    tokens = {to_experts(model, "from_experts", written, s.groups(), s.divided, s.sent())};
  }
  ValueId y{};
  {
    const auto module = model.module("combine", "MixtralCombine");
    y = combine(model, "sum", read, routes, tokens, parts.weighted || s.weighted);
    if (s.latent > 0) y = dense(model, "from_latent", y, model.value(x).shape.back(), false);
    if (exchanged || s.ranks == 1) return add(model, "residual", parts.dropped(y), x);
  }
  y = sum_of_ranks(model, "expert_sum", y, s.whole);
  const auto module = model.module("expert_out", "MixtralResidual");
  return add(model, "residual", parts.dropped(y), x);
}

void read_experts(Options& options, Config& config, const Expansion& e, const Ranks& ranks,
                  Experts& s) {
  s.experts = options.get("num_local_experts", config.whole("num_local_experts", s.experts),
                          "feed-forward networks of a block; 0: one for all tokens", 0, 1024);
  if (s.none) s.experts = 0;
  s.top_k =
      read_extent(options, "num_experts_per_tok", config.whole("num_experts_per_tok", s.top_k),
                  "experts that a token goes to");
  s.whole = ranks;
  s.shared_inner = config.whole("shared_expert_intermediate_size", s.shared_inner);
  s.capacity_factor = config.number("capacity_factor", 1.0, 0.01, 1024.0);
  s.ranks = read_extent(options, "expert", 1,
                        "ranks that share the experts; the graph is one of them", 65'536);
  s.divided = read_extent(options, "expert_tensor", 1,
                          "of the ranks in 'expert', neighbours that divide each expert", 1024);
  if (s.ranks % s.divided != 0) {
    options.mistake("expert_tensor", fmt::format("does not divide the {} of 'expert'", s.ranks));
    s.divided = 1;
  }
  s.grouped = e.kernels.grouped_gemm.value_or(s.grouped);
  if (e.inference.on()) {
    if (s.ranks > 1) options.mistake("expert", "pass train alone has ranks that share experts");
    s.grouped = true;
    // Each rank has a part of every expert: vLLM without expert parallelism.
    if (s.experts > 0) s.ranks = s.divided = ranks.tensor;
    s.read = e.inference.experts_read(s.experts, s.top_k);
  }
  if (s.inner % s.divided != 0)
    options.mistake("expert_tensor",
                    fmt::format("{} features inside cannot be divided by {}", s.inner, s.divided));
  s.weighted = e.kernels.weighted_activation;
  s.bias_apart = e.kernels.unfused_expert_bias;
  if (s.bias_apart && !(s.grouped && s.bias))
    options.mistake("kernels", "unfused_expert_bias needs grouped_gemm with biases");
  s.places = e.kernels.dispatch_once;
  if (s.places > 0 && !s.grouped) {
    options.mistake("kernels",
                    "dispatch_once: whoever receives a token makes its copies: needs grouped_gemm");
    s.places = 0;
  }
  if (s.grouped && e.level == Level::tf1)
    options.mistake("level", "TensorFlow 1 has no products of several experts");
  if (s.experts == 0) {
    if (s.ranks > 1) options.mistake("expert", "ranks share experts, and there are none");
    return;
  }
  if (s.shared_inner % ranks.tensor != 0)
    options.mistake(
        "config",
        fmt::format("shared_expert_intermediate_size: cannot be divided by {}", ranks.tensor));
  if (s.experts % s.groups() != 0)
    options.mistake("expert",
                    fmt::format("{} experts cannot be divided by {}", s.experts, s.groups()));
  if (ranks.tensor > 1 && !ranks.sequence && !e.inference.on())
    options.mistake("tensor",
                    "experts are whole, so that ranks of tensor parallelism must not have the same "
                    "tokens: it needs sequence_parallel");
  if (s.ranks % ranks.tensor != 0)
    options.mistake("expert", fmt::format("{} are not {} ranks of tensor parallelism once or more",
                                          s.ranks, ranks.tensor));
  if (s.ranks > 1 && e.level == Level::tf1)
    options.mistake("level", "TensorFlow 1 has no ranks that share experts");
  if (s.top_k > s.experts)
    options.mistake("num_experts_per_tok", "is more than 'num_local_experts'");
}

}  // namespace baechi::generate
