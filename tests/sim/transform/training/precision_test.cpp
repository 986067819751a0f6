#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

namespace {

/// conv(40 B of weights) -> norm -> grad of conv(40 B of gradients) -> update(80 B of its own).
/// Tensors: 100 B, 60 B, and 40 B of weight gradient. Each op has a kernel of 100 B of traffic.
OpGraph training(bool work) {
  return graph_of(fmt::format(
      "conv{0},k:Conv2d,w40,t10 -100> norm{0},k:LayerNorm,t10 -x60> grad{0},k:Conv2dBackward,w40,b "
      "-g40> .; norm -x> relu{0},k:ReLU; grad -g> update{0},k:Adam,w80,u",
      work ? "=0,f1000,m100" : "=30"));
}

const Op& op_named(const OpGraph& graph, std::string_view name) {
  return graph.op(*graph.find(name));
}
OpWork work(const OpGraph& graph, std::string_view name) { return graph.work(*graph.find(name)); }
Bytes written(const OpGraph& graph, std::string_view name) {
  return graph.tensor(*graph.outputs(*graph.find(name)).begin()).size;
}

}  // namespace

TEST_SUITE_BEGIN("precision");
// A Linear of 100 numbers: 400 B in fp32, 200 B in 16 bits. With an update of 800 B of Adam's
// state: the copy of 200 B, and 400 B of master weights with the update.
TEST_CASE("master weights exist where an update op exists") {
  for (const bool updated : {false, true})
    for (const bool timed : {false, true}) {
      INFO(updated, " ", timed);
      const OpGraph graph = graph_of(
          fmt::format("fc0,k:Linear,w400{} -8> grad0,k:LinearBackward,b:fc -400> {}",
                      timed ? "" : ",f1000,m400", updated ? "update0,k:Adam,w800,u" : "."));
      const OpGraph autocast = transform("precision", {{"to", "amp"}})->apply(graph).graph;
      CHECK(autocast.find("fc/half").has_value() == !timed);  // casts fp32 weights in each pass
      const OpGraph half = transform("precision", {{"to", "fp16"}})->apply(graph).graph;
      CHECK(op_named(half, "fc").persistent == 200_B);
      CHECK(half.find("fc/half").has_value() == (updated && !timed));
      if (updated) CHECK(op_named(half, "update").persistent == 1200_B);
    }
}

TEST_CASE("fp8 and nvfp4: GEMMs of layers in 8 or 4 bits, all else as bf16") {
  OpGraphBuilder b;
  const OpId layer = b.add_op({.name = "h_0/mlp", .kind = "MLP", .persistent = 40_B});
  const OpId head = b.add_op({.name = "head", .kind = "Linear"});
  const MatrixShape product{MatrixKind::product, 1, 0, 5, 10},
      attention{MatrixKind::attention, 0, 5, 5, 5};
  for (const MatrixShape& shape : {product, attention, MatrixShape{}})
    b.add_kernel(layer, {.flops = 1000, .traffic = 100_B, .matrix = shape});
  b.add_kernel(head, {.flops = 1000, .traffic = 100_B, .matrix = product});
  b.add_edge(b.add_tensor(layer, 60_B), head);
  const OpGraph whole = std::move(b).build();
  for (const auto& [word, narrow] :
       {std::pair{"fp8", Precision::fp8}, {"mxfp8", Precision::fp8}, {"nvfp4", Precision::fp4}}) {
    CAPTURE(word);
    const OpGraph made = apply("precision", whole, {{"to", word}}).graph;
    const auto kernels = made.kernels(*made.find("h_0/mlp"));
    CHECK(kernels[0].precision == narrow);
    CHECK(kernels[1].precision == Precision::bf16);
    CHECK(kernels[2].precision == Precision::bf16);
    // 1000 / (2 x 5 x 10) = 10 rows of 10 numbers are converted, 2 bytes each.
    CHECK(kernels[0].matrix.kind == MatrixKind::prepared_product);
    REQUIRE(kernels.size() == 4);
    CHECK(kernels[3] == OpWork{.traffic = 200_B, .precision = Precision::bf16});
    CHECK(work(made, "head").precision == Precision::bf16);
    CHECK(written(made, "h_0/mlp") == 30_B);
    CHECK(op_named(made, "h_0/mlp").persistent == 20_B);  // nothing updates it: no master
  }
}

TEST_CASE("fp8: attention, whose GEMM count grows with the batch, stays in bf16") {
  OpGraphBuilder b;
  b.add_kernel(b.add_op({.name = "h_0/attn"}),
               {.flops = 1000, .matrix = {MatrixKind::product, 0, 5, 5, 10}});
  const OpGraph made = apply("precision", std::move(b).build(), {{"to", "fp8"}}).graph;
  const auto kernels = made.kernels(OpId{0});
  CHECK(kernels[0].precision == Precision::bf16);
  CHECK(kernels[0].matrix.kind == MatrixKind::product);
  for (const OpWork& kernel : kernels) CHECK(kernel.traffic == Bytes{});  // nothing is converted
}

TEST_CASE("fp8 with 'attention: fp8': fused attention in layers, too") {
  OpGraphBuilder b;
  for (const char* name : {"h_0/attn", "pool"})
    b.add_kernel(b.add_op({.name = name}),
                 {.flops = 1000, .matrix = {MatrixKind::causal_attention, 0, 5, 5, 5}});
  const OpGraph whole = std::move(b).build();
  for (const char* word : {"fp8", "nvfp4"}) {
    const OpGraph made = apply("precision", whole, {{"to", word}, {"attention", "fp8"}}).graph;
    CHECK(work(made, "h_0/attn").precision == Precision::fp8);
    CHECK(work(made, "pool").precision == Precision::bf16);
  }
  const OpGraph bf16 = apply("precision", whole, {{"to", "bf16"}, {"attention", "fp8"}}).graph;
  CHECK(work(bf16, "h_0/attn").precision == Precision::bf16);
}

TEST_CASE("GEMMs of the kinds 'whole' stay in bf16 in both passes") {
  OpGraphBuilder b;
  for (const char* kind : {"Attention", "Network"}) {
    const std::string name = fmt::format("h_0/{}", kind);
    const OpId op = b.add_op({.name = name, .kind = kind});
    b.add_kernel(op, {.flops = 1000, .matrix = {MatrixKind::product, 1, 0, 5, 10}});
    const OpId back =
        b.add_op({.name = name + "_grad", .kind = "Backward", .phase = Phase::backward});
    b.add_kernel(back, {.flops = 1000, .matrix = {MatrixKind::product, 1, 0, 10, 5}});
    b.set_forward(back, op);
  }
  const OpGraph whole = std::move(b).build();
  const OpGraph made = apply("precision", whole, {{"to", "nvfp4"}, {"whole", "attention"}}).graph;
  for (const char* ending : {"", "_grad"}) {
    CHECK(work(made, fmt::format("h_0/Attention{}", ending)).precision == Precision::bf16);
    CHECK(work(made, fmt::format("h_0/Network{}", ending)).precision == Precision::fp4);
  }
}

// fc1 -> fc2, 100 numbers each: 800 B in fp32, copies of 400 B in 16 bits. Each trained layer has
// a gradient of 400 B, a tensor or held by its backward op, and 800 B of Adam's state.
TEST_CASE("master weights of exactly what is updated, and fp32 weights of all with amp") {
  struct Case {
    bool frozen, adam, held;
    const char* to;
    std::int64_t bytes, casts;
  };
  const Case cases[] = {
      {false, true, false, "bf16", 400 + 2 * (400 + 800), 2},
      {false, false, false, "bf16", 400 + 2 * 400, 2},
      {true, true, false, "bf16", 400 + 400 + 800, 1},
      {true, false, false, "bf16", 400 + 400, 1},
      {true, true, true, "bf16", 400 + 400 + 800 + 200, 1},
      {true, false, true, "bf16", 400 + 400 + 200, 1},
      {false, true, false, "amp", 400 + 800 + 2 * 800, 2},
      {true, true, false, "amp", 400 + 800 + 800, 2},
      {true, true, true, "amp", 400 + 800 + 800 + 400, 2},
      {true, false, false, "amp", 400 + 800, 2},
  };
  for (const Case& c : cases) {
    CAPTURE(&c - cases);
    OpGraphBuilder b;
    const auto add = [&](OpSpec spec) {
      const OpId v = b.add_op(spec);
      b.add_kernel(v, {.flops = 1000, .traffic = 400_B});
      return v;
    };
    const OpId fc[] = {add({.name = "fc1", .kind = "Linear", .persistent = 400_B}),
                       add({.name = "fc2", .kind = "Linear", .persistent = 400_B})};
    b.add_edge(b.add_tensor(fc[0], 8_B), fc[1]);
    TensorId flow = b.add_tensor(fc[1], 8_B);
    for (const int layer : {1, 0}) {
      const bool trained = layer == 1 || !c.frozen;
      const OpId grad = add({.name = fmt::format("grad{}", layer),
                             .kind = "LinearBackward",
                             .persistent = trained && c.held ? 400_B : 0_B,
                             .phase = Phase::backward});
      b.set_forward(grad, fc[layer]);
      b.add_edge(flow, grad);
      flow = b.add_tensor(grad, 8_B);
      if (!trained) continue;
      const OpId update = add({.name = fmt::format("update{}", layer),
                               .kind = "Adam",
                               .persistent = c.adam ? 800_B : 0_B,
                               .phase = Phase::update});
      if (c.held)
        b.add_control(grad, update);
      else
        b.add_edge(b.add_tensor(grad, 400_B), update);
    }
    const OpGraph made = apply("precision", std::move(b).build(), {{"to", c.to}}).graph;
    Bytes held;
    std::int64_t casts = 0;
    for (const OpId v : made.ops()) {
      held += made.op(v).persistent;
      casts += made.kind(v) == "Cast" ? 1 : 0;
    }
    CHECK(held == Bytes{c.bytes});
    CHECK(casts == c.casts);
  }
}

TEST_CASE("weights of few bits are not halved again") {
  OpGraphBuilder b;
  const OpId fc = b.add_op({.name = "fc", .kind = "Linear", .persistent = 200_B});
  // 5 x 10 numbers in 16 bits take 100 B.
  b.add_kernel(fc, {.flops = 1000,
                    .traffic = 90_B,
                    .weights = 28_B,
                    .matrix = {MatrixKind::product, 1, 0, 5, 10}});
  const OpGraph quantized = std::move(b).build();
  CHECK_REFUSED(apply("precision", quantized, {{"to", "bf16"}}),
                "precision: the weights of 'fc' have fewer than 16 bits: put precision before "
                "quantize, or give the generator's option dtype");
}

TEST_CASE("frozen weights are not cast in every step") {
  for (const int gradients : {0, 40}) {
    const OpGraph graph = graph_of(fmt::format("a0,w40,f1000; a_grad0,w{},b:a; u0,u", gradients));
    const OpGraph made = apply("precision", graph, {{"to", "bf16"}}).graph;
    CHECK(made.find("a/half").has_value() == (gradients > 0));
  }
}

TEST_CASE("fp8: a gradient is converted by rows and by columns, once for its two GEMMs") {
  OpGraphBuilder b;
  const OpId layer = b.add_op({.name = "h_0/mlp_grad", .phase = Phase::backward});
  b.add_kernel(layer, {.flops = 1000, .matrix = {MatrixKind::product, 1, 0, 5, 10}});
  b.add_kernel(layer, {.flops = 1000, .matrix = {MatrixKind::product, 1, 5, 10, 0}});
  const OpGraph whole = std::move(b).build();
  const OpGraph made = apply("precision", whole, {{"to", "fp8"}}).graph;
  const auto kernels = made.kernels(OpId{0});
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[1].matrix.kind == MatrixKind::prepared_product);
  CHECK(kernels[2].traffic == 400_B);  // 10 rows of 10 numbers, 4 bytes each
  // By kernels of their own: the gradient's 100 numbers and 50 weights 7 bytes each, the input's
  // 5 x 10 numbers 5.
  const Values dynamic{{"to", "fp8"}, {"conversions", "dynamic"}};
  CHECK(apply("precision", whole, dynamic).graph.kernels(OpId{0})[2].traffic == 1300_B);
}

// 10 rows of 10 numbers, 3.5 bytes each, and 50 weights, 5 each.
TEST_CASE("fp8 with dynamic scaling: weights are converted, too; experts stay in bf16") {
  OpGraphBuilder b;
  for (const char* name : {"h_0/mlp", "h_0/mlp/expert_0"})
    b.add_kernel(b.add_op({.name = name}),
                 {.flops = 1000, .matrix = {MatrixKind::product, 1, 0, 5, 10}});
  const Values dynamic{{"to", "fp8"}, {"conversions", "dynamic"}};
  const OpGraph made = apply("precision", std::move(b).build(), dynamic).graph;
  CHECK(made.kernels(OpId{0})[1].traffic == 600_B);
  CHECK(made.kernels(OpId{1})[0].precision == Precision::bf16);
}

TEST_CASE("fp16: half of activations and gradients, a half copy of weights and its cast") {
  const OpGraph half = apply("precision", training(true), {{"to", "fp16"}}).graph;
  CHECK(work(half, "conv") == OpWork{.flops = 1000, .traffic = 50_B, .precision = Precision::fp16});
  CHECK(work(half, "grad").precision == Precision::fp16);
  CHECK(written(half, "conv") == 50_B);
  CHECK(op_named(half, "conv").temporary == 5_B);
  CHECK(op_named(half, "conv").persistent == 60_B);  // 40 and the half copy: no update op is known
  // The cast, colocated with its op, reads 40 B and writes 20 B.
  CHECK(op_named(half, "conv/half").persistent == 0_B);
  CHECK(work(half, "conv/half").traffic == 60_B);
  CHECK(op_named(half, "conv/half").group == op_named(half, "conv").group);
  CHECK(op_named(half, "conv").group != no_group);
  CHECK(op_named(half, "grad").persistent == 20_B);
  CHECK(written(half, "grad") == 20_B);
  // Ops of kinds that are excepted stay, with what they write; so do updates.
  CHECK(work(half, "norm") == work(training(true), "norm"));
  CHECK(op_named(half, "norm").temporary == 10_B);
  CHECK(written(half, "norm") == 60_B);
  CHECK(work(half, "update") == work(training(true), "update"));
  CHECK(op_named(half, "update").persistent == 80_B);
  CHECK(half.num_ops() == 6);
  CHECK(work(apply("precision", training(true), {{"to", "bf16"}}).graph, "conv").precision ==
        Precision::bf16);
}

TEST_CASE("the update op holds the master weights, and the cast follows it") {
  // f and g, 40 B of weights each, are one group with their updates. Only f's backward op says
  // whose gradient it makes, so u1 updates f; either may update g, and the first stands for both.
  OpGraph graph = graph_of(
      "f0,w40,m100 -10> g0,w40,m100 -10> back0,m100,b:f; u0=0,w80,m100,u; back -40> "
      "u1=0,w80,m100,u");
  const std::vector<std::string> names{"all"};
  graph = graph.with_groups(IdVector<OpId, GroupId>(graph.num_ops(), GroupId{1}), names);
  for (const char* to : {"fp16", "bf16", "amp"}) {
    const OpGraph half = apply("precision", graph, {{"to", to}}).graph;
    CHECK(op_named(half, "f").persistent == 20_B);
    CHECK(op_named(half, "g").persistent == 20_B);
    CHECK(op_named(half, "u0").persistent == 80_B + 40_B);
    CHECK(op_named(half, "u1").persistent == 80_B + 40_B);
    CHECK(op_named(half, "f/half").phase == Phase::update);
    CHECK(half.in_edges(*half.find("f/half")).size() == 1);
    CHECK(half.in_edges(*half.find("g/half")).size() == 2);
  }
}

TEST_CASE("amp keeps the gradients of weights in 32 bits") {
  const OpGraph half = apply("precision", training(true)).graph;
  CHECK(work(half, "conv").precision == Precision::fp16);
  CHECK(written(half, "conv") == 50_B);
  CHECK(op_named(half, "grad").persistent == 40_B);
  CHECK(written(half, "grad") == 40_B);
  CHECK(op_named(half, "conv/half").persistent == 0_B);
}

TEST_CASE("gradients of weights stay in fp32 with 'gradients: whole'") {
  const OpGraph whole =
      apply("precision", training(true), {{"to", "bf16"}, {"gradients", "whole"}}).graph;
  CHECK(op_named(whole, "grad").persistent == 40_B);
  CHECK(written(whole, "grad") == 40_B);
  CHECK(written(whole, "conv") == 50_B);
  CHECK(op_named(whole, "conv").persistent == 60_B);
}

TEST_CASE("masks, indices and 32-bit statistics keep their bytes") {
  OpGraphBuilder b;
  const OpId f = b.add_op({.name = "f", .kind = "Dropout"});
  const OpId g = b.add_op({.name = "g", .kind = "Back", .phase = Phase::backward});
  b.set_forward(g, f);
  const TensorId mask = b.add_tensor(f, 7_B);
  b.set_fixed_size(mask);
  b.add_edge(mask, g);
  const OpGraph half = apply("precision", std::move(b).build(), {{"to", "bf16"}}).graph;
  CHECK(written(half, "f") == 7_B);
  CHECK(half.tensor(*half.outputs(*half.find("f")).begin()).fixed_size);
}

// dense -> loss -> loss_grad -> dense_grad: the loss computes in 32 bits from logits in 16 bits.
TEST_CASE("a gradient has the dtype of its value") {
  const OpGraph graph =
      graph_of("dense0 -80> loss0,k:Loss -80> loss_grad0,b:loss -80> dense_grad0,b:dense");
  const OpGraph half = apply("precision", graph, {{"to", "bf16"}}).graph;
  CHECK(written(half, "dense") == 40_B);
  CHECK(written(half, "loss") == 80_B);
  CHECK(written(half, "loss_grad") == 40_B);
}

// A layer of 40 B is frozen, another has 40 B, of which adapters of 8 B are trained: their
// gradients are as large. Halves: 20 B each; master weights of the adapters alone, 8 B.
TEST_CASE("frozen weights have no master weights") {
  const OpGraph graph = graph_of(
      "frozen0,k:Linear,w40 -10> adapted0,k:Linear,w40,c:x -10> "
      "adapted_grad0,k:LinearBackward,w8,b:adapted,c:x ~> adapted_update0,k:Adam,w16,u,c:x");
  const auto held = [&](const OpGraph& of, const char* name) {
    return op_named(of, name).persistent;
  };
  const OpGraph made = apply("precision", graph, {{"to", "bf16"}}).graph;
  CHECK(held(made, "frozen") == 20_B);
  CHECK(held(made, "adapted") == 20_B);
  CHECK(held(made, "adapted_update") == Bytes{16 + 8});
  // The lower halves of the master weights alone: 4 B.
  const OpGraph rests = apply("precision", graph, {{"to", "bf16"}, {"remainders", "true"}}).graph;
  CHECK(held(rests, "adapted_update") == Bytes{16 + 4});
  CHECK_REFUSED(transform("precision", {{"to", "fp16"}, {"remainders", "true"}}),
                doctest::Contains("fp16 is not a prefix of fp32"));
}

TEST_CASE("without master weights everything takes half and nothing is cast") {
  const OpGraph half =
      apply("precision", training(true), {{"to", "fp16"}, {"master_weights", "false"}}).graph;
  CHECK(half.num_ops() == 5);
  CHECK(op_named(half, "conv").persistent == 20_B);
  CHECK(op_named(half, "grad").persistent == 20_B);
  CHECK(op_named(half, "update").persistent == 40_B);
  CHECK(work(half, "update").traffic == 50_B);
  CHECK_REFUSED(transform("precision", {{"master_weights", "false"}}),
                "x.yaml:1:2: precision.master_weights: amp keeps fp32 weights; without them use "
                "fp16 or bf16");
}

TEST_CASE("precision is applied to a step only once") {
  const OpGraph half = apply("precision", training(true), {{"to", "bf16"}}).graph;
  CHECK_REFUSED(apply("precision", half, {{"to", "amp"}}),
                "precision: the step is in half precision already: 'conv/half' casts weights");
}

TEST_CASE("tf32 changes arithmetic only") {
  const OpGraph graph = training(true);
  const OpGraph tf32 = apply("precision", graph, {{"to", "tf32"}}).graph;
  CHECK(work(tf32, "conv") ==
        OpWork{.flops = 1000, .traffic = 100_B, .precision = Precision::tf32});
  CHECK(work(tf32, "norm").precision == Precision::fp32);
  for (const OpId v : graph.ops()) CHECK(tf32.op(v).persistent == graph.op(v).persistent);
  CHECK(written(tf32, "conv") == 100_B);
}

TEST_CASE("measured times are divided by the factor of their bound") {
  //   conv and its backward op by 3, relu by 2, norm and update not at all
  const OpGraph half = apply("precision", training(false)).graph;
  CHECK(op_named(half, "conv").compute == 10ns);
  CHECK(op_named(half, "grad").compute == 10ns);
  CHECK(op_named(half, "relu").compute == 15ns);
  CHECK(op_named(half, "norm").compute == 30ns);
  CHECK(op_named(half, "update").compute == 30ns);
  CHECK(half.num_ops() == 5);                        // no cast, whose time is unknown
  CHECK(op_named(half, "conv").persistent == 60_B);  // but its memory counts
  const OpGraph tf32 =
      apply("precision", training(false), {{"to", "tf32"}, {"compute_factor", "5"}}).graph;
  CHECK(op_named(tf32, "conv").compute == 6ns);
  CHECK(op_named(tf32, "relu").compute == 30ns);  // memory is as fast as it was
}

TEST_CASE("a device type may have its own factors, and exceptions can be given") {
  OpGraphBuilder b;
  const OpId v = b.add_op({.name = "conv", .kind = "Conv2d"});
  b.set_compute(v, "v100", 60ns);
  b.set_compute(v, "a100", 60ns);
  const OpGraph graph = std::move(b).build();
  Options options("precision");
  const auto text = [](std::string t) { return Options::Value{.text = std::move(t), .where = {}}; };
  options.set(
      "kinds",
      {.text = {},
       .where = {},
       .children = {
           {"a100", {.text = {}, .where = {}, .children = {{"compute_factor", text("2")}}}}}});
  const OpGraph half = make_transform("precision", std::move(options))->apply(graph).graph;
  Options wrong("precision");
  wrong.set("kinds",
            {.text = {}, .where = {}, .children = {{"a100", {{}, {}, {{"compute", text("2")}}}}}});
  CHECK(message<InputError>([&] {
          make_transform("precision", std::move(wrong));
        }).starts_with("precision.kinds.a100 has no option 'compute'"));
  CHECK(half.compute(v, 0) == 20ns);
  CHECK(half.compute(v, 1) == 30ns);
  CHECK(apply("precision", graph, {{"except", "conv"}}).graph.compute(v, 0) == 60ns);
}

TEST_CASE("a convolution fused with its norm is excepted only by a word for it or a pattern") {
  const OpGraph graph = graph_of(
      "Conv2dBatchNormReLU=0,k:Conv2dBatchNormReLU,f100,m80; BatchNorm2d=0,k:BatchNorm2d,f100,m80");
  const OpGraph half = apply("precision", graph, {{"to", "fp16"}}).graph;
  CHECK(work(half, "Conv2dBatchNormReLU").traffic == 40_B);
  CHECK(work(half, "Conv2dBatchNormReLU").precision == Precision::fp16);
  CHECK(work(half, "BatchNorm2d").traffic == 80_B);
  for (const char* word : {"conv", "*norm*"}) {
    const OpGraph whole = apply("precision", graph, {{"to", "fp16"}, {"except", word}}).graph;
    CHECK(work(whole, "Conv2dBatchNormReLU").traffic == 80_B);
  }
}

// f holds 40 B of weights and 80 B of Adam's, as its gradient of 40 B tells: the half copy is 20
// B.
TEST_CASE("weights and optimizer state in one op: the weights are as large as their gradient") {
  const OpGraph graph = graph_of("f0,w120,m100 -8> g0,m100,b:f -40> u0,m100,u");
  for (const char* to : {"amp", "bf16"}) {
    const OpGraph half = apply("precision", graph, {{"to", to}}).graph;
    CHECK(op_named(half, "f").persistent == 120_B + 20_B);
    CHECK(work(half, "f/half").traffic == 60_B);  // 40 B read, 20 B written
  }
}

TEST_CASE("excepted ops keep weights, gradients and optimizer state, and are not cast") {
  const OpGraph graph =
      graph_of("f0,k:LayerNorm,w40,m100 -8> g0,k:Back,w40,m100,b:f ~> u0,w80,m100,u");
  for (const char* master : {"true", "false"}) {
    const OpGraph half =
        apply("precision", graph, {{"to", "bf16"}, {"master_weights", master}}).graph;
    CHECK(half.num_ops() == 3);
    CHECK(op_named(half, "f").persistent == 40_B);
    CHECK(op_named(half, "g").persistent == 40_B);
    CHECK(op_named(half, "u").persistent == 80_B);
    CHECK(work(half, "u").traffic == 100_B);
  }
}

TEST_CASE("weights are cast when all that follows their update has ended") {
  // g -> clip -> adam: the cast of the weights follows adam, not clip.
  const OpGraph graph = graph_of("f0,w40,f1 -8> g0,w40,f1,b:f ~> clip0,f1,u ~> adam0,w80,f1,u");
  const OpGraph made = apply("precision", graph, {{"to", "fp16"}}).graph;
  const auto before = made.predecessors(*made.find("f/half"));
  REQUIRE(before.size() == 1);
  CHECK(made.name(before[0]) == "adam");
}
