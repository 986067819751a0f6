#include "traces/generate/layers/state_space_layers.h"

#include "sim/error.h"

namespace baechi::generate {
namespace {

/// Triton's kernels of the scan take so many times as long as what they move would at the share of
/// the bandwidth that other kernels reach, 0.84. Fitted, at a share of 0.6, to NeMo's steps of
/// Nemotron 3 Nano of 2026 on GB200 (7.1) and GB300 (5.5): six times, a tenth of the bandwidth. Its
/// steps on B200 and H100, and all of Super, were left out.
constexpr std::int64_t slowness = 8;

/// Flops and numbers moved of one token. States are in 32 bits, where all others may be in 16: they
/// count twice.
struct OfToken {
  std::int64_t flops = 0, moved = 0;
};

/// Each of the `taps` last tokens is multiplied and added; read and written.
OfToken mixer_convolution(const StateSpace& s) {
  return {2 * s.taps * s.convolved(), 2 * s.convolved()};
}
/// The states of a chunk: products of features and their input weights. They are written once per
/// chunk, then read and written on the way from chunk to chunk.
OfToken mixer_states(const StateSpace& s) {
  const std::int64_t each = s.inner() * s.state / s.chunk;
  return {2 * s.inner() * s.state, slowness * (s.inner() + s.groups * s.state + 2 * 3 * each)};
}
/// Scores of the tokens of a chunk, of each group; all of them are written.
OfToken mixer_scores(const StateSpace& s) {
  return {2 * s.groups * s.chunk * s.state,
          slowness * (2 * s.groups * s.state + s.groups * s.chunk)};
}
/// Scores times features, of the tokens before alone, and the states before the chunk.
OfToken mixer_outputs(const StateSpace& s) {
  const std::int64_t each = s.inner() * s.state / s.chunk;
  return {s.inner() * s.chunk + 2 * s.inner() * s.state,
          slowness * (2 * s.inner() + s.groups * (s.state + s.chunk) + 2 * each)};
}
/// Reads output and gate, and writes.
OfToken mixer_norm(const StateSpace& s) { return {10 * s.inner(), 3 * s.inner()}; }

OpWork mixer_work(const OfToken& one, std::int64_t tokens, std::int64_t times = 1) {
  return {.flops = times * tokens * one.flops, .traffic = bytes_of(times * tokens * one.moved)};
}

}  // namespace

ValueId state_space(Model& model, std::string_view name, ValueId x, const StateSpace& s) {
  const Shape in = model.value(x).shape;
  BAECHI_CHECK(in.back() == s.width(), "{}: {} features, not {}", name, in.back(), s.width());
  const std::int64_t tokens = elements(in) / in.back();
  Layer l{.kind = LayerKind::state_space, .name = model.scoped(name), .inputs = {x}};
  {
    const auto scope = model.scope(name);
    l.variables = {
        model.variable("taps", {s.taps + 1, s.convolved()}, Initializer::truncated_normal),
        model.variable("heads", {3, s.heads}, Initializer::ones),  // step, decay, direct way
        model.variable("gamma", {s.inner()}, Initializer::ones)};
  }
  l.forward = mixer_work(mixer_outputs(s), tokens);
  l.forward_besides = {mixer_work(mixer_convolution(s), tokens),
                       mixer_work(mixer_states(s), tokens), mixer_work(mixer_scores(s), tokens),
                       mixer_work(mixer_norm(s), tokens)};
  // Convolved and summed up again; then two gradients of every product, and what both read.
  l.input_gradient = mixer_work(mixer_outputs(s), tokens, 2);
  l.backward_besides = {
      mixer_work(mixer_convolution(s), tokens), mixer_work(mixer_states(s), tokens),
      mixer_work(mixer_scores(s), tokens),      mixer_work(mixer_norm(s), tokens, 2),
      mixer_work(mixer_scores(s), tokens, 2),   mixer_work(mixer_states(s), tokens, 2),
      mixer_work(mixer_convolution(s), tokens)};
  l.variable_gradient = mixer_work(mixer_convolution(s), tokens);
  l.multiply_adds = (l.forward.flops + l.forward_besides[1].flops + l.forward_besides[2].flops) / 2;
  l.saved = {x};
  // What the scan writes before its gate, and what the norm reads, a kernel of its own. Source:
  // Megatron-LM, core/ssm/mamba_mixer.py (_ssm_training); mamba_ssm, ssd_combined.py.
  l.kept = bytes_of(2 * tokens * s.inner());
  l.kept_fixed = bytes_of(tokens * s.groups);
  Shape out = in;
  out.back() = s.inner();
  const ValueId y = model.output(l, std::move(out));
  model.add(std::move(l));
  return y;
}

}  // namespace baechi::generate
