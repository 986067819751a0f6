#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/traces/generate/generated_graphs.h"
#include "tests/traces/generate/generated_models.h"
#include "traces/format/trace_file.h"

namespace {

/// Ops with an edge.
std::size_t connected(const OpGraph& g) {
  return static_cast<std::size_t>(std::ranges::count_if(
      g.ops(), [&](OpId v) { return !g.in_edges(v).empty() || !g.out_edges(v).empty(); }));
}

/// Ops of `phase` with an edge whose name has `part` in it.
std::size_t connected(const OpGraph& g, Phase phase, std::string_view part) {
  std::size_t n = 0;
  for (const OpId v : g.ops()) {
    const bool edges = !g.in_edges(v).empty() || !g.out_edges(v).empty();
    if (edges && g.op(v).phase == phase && holds(g.name(v), part)) ++n;
  }
  return n;
}

/// Weights alone: those of a forward pass.
std::int64_t weights(std::string_view name, Settings settings) {
  settings["training"] = "false";
  const OpGraph g = generate(name, settings);
  std::int64_t bytes = 0;
  for (const OpId v : g.ops()) bytes += g.op(v).persistent.count;
  return bytes / 4;
}

/// Forward multiply-adds, as half the operations of products: what is done per element is less.
double forward_multiply_adds(const OpGraph& g) {
  double flops = 0.0;
  for (const OpId v : g.ops())
    if (g.op(v).phase == Phase::forward) flops += static_cast<double>(g.work(v).flops);
  return flops / 2.0;
}

constexpr Bytes gigabytes(double n) { return n * Bytes{1'000'000'000}; }

/// Four GPUs on PCIe, as Baechi's.
Cluster baechi_cluster(std::size_t devices, Bytes memory) {
  return Cluster::uniform(devices, memory, {.bandwidth = 5.7_GBps, .latency = 134us});
}

Placement by_expert(const std::string& rules, const OpGraph& graph, const Cluster& cluster) {
  const std::string file = source_dir() + "/scenarios/papers/baechi_socc20/" + rules;
  std::map<std::string, Options::Value> given;
  given["rule_file"] = {.text = file, .where = "", .children = {}};
  const ProfiledCosts costs(graph, cluster);
  return make_placer("expert", Options("expert", given))
      ->place({.graph = graph, .cluster = cluster, .costs = costs}, 0);
}

/// Of `graph`, which has times.
StepResult step_on(const OpGraph& graph, const Cluster& cluster, const Placement& placement) {
  const ProfiledCosts costs(graph, cluster);
  return simulate({.graph = graph, .cluster = cluster, .costs = costs}, placement);
}

bool fits_one(const OpGraph& graph, Bytes memory) {
  const Placement all{.device = IdVector<OpId, DeviceId>(graph.num_ops(), gpu0)};
  return !step_on(timed(graph), baechi_cluster(1, memory), all).oom;
}

OpGraph gnmt(const std::string& batch, const std::string& length) {
  return generate("gnmt", {{"level", "tf1"}, {"batch", batch}, {"length", length}});
}

}  // namespace

TEST_SUITE_BEGIN("sequence_models");
TEST_CASE("parameters are the published ones") {
  struct Row {
    const char* name;
    Settings settings;
    std::int64_t parameters;
  };
  // GNMT: embeddings 30 720 000, encoder 11 544 576, decoder 12 591 104, attention 524 800,
  // projection 15 360 000. BERT with pretraining heads: 590 592 + 1536 + 30 522 for words, 1538
  // for sentences, more than the encoder with its pooler; large: 1 049 600 + 2048 + 30 522 +
  // 2050. Llama, Mixtral: what their published shapes add up to.
  for (const Row& row : {
           Row{"gnmt", {}, 70'740'480},
           Row{"transformer", {}, 90'181'632},
           Row{"transformer", {{"shared_embeddings", "true"}, {"vocab_size", "37000"}}, 63'045'632},
           Row{"bert", {{"pretraining_heads", "false"}}, 109'482'240},
           Row{"bert", {{"size", "large"}, {"pretraining_heads", "false"}}, 335'141'888},
           Row{"bert", {}, 109'482'240 + 624'188},
           Row{"bert", {{"size", "large"}}, 335'141'888 + 1'084'220},
           // Fine-tuned to answer questions: without the pooler's 1 049 600, with 2050 for
           // answers.
           Row{"bert", {{"size", "large"}, {"answers", "true"}}, 335'141'888 - 1'049'600 + 2'050},
           // "Big" of Vaswani et al., table 3: 213 M with 37 000 words.
           Row{"transformer",
               {{"hidden_size", "1024"},
                {"num_attention_heads", "16"},
                {"intermediate_size", "4096"},
                {"shared_embeddings", "true"},
                {"vocab_size", "37000"}},
               214'171'648},
           Row{"gpt2", {}, 124'439'808},
           Row{"gpt2", {{"size", "medium"}}, 354'823'168},
           Row{"gpt2", {{"size", "large"}}, 774'030'080},
           Row{"gpt2", {{"size", "xl"}}, 1'557'611'200},
           Row{"llama", {}, 6'738'415'616},
           Row{"llama", {{"config.like", "13b"}}, 13'015'864'320},
           Row{"llama", {{"config.like", "70b"}}, 68'976'648'192},
           Row{"llama", {{"config.like", "3-8b"}}, 8'030'261'248},
           // Published: 70.6, 405.9, 30.5 and 235 billion.
           Row{"llama", {{"config.like", "3-70b"}}, 70'553'706'496},
           Row{"llama", {{"config.like", "3-405b"}}, 405'853'388'800},
           Row{"moe", {{"config.like", "qwen3-30b"}}, 30'532'122'624},
           Row{"moe", {{"config.like", "qwen3-235b"}}, 235'093'634'560},
           // Published: 671 billion; its file has a number for each of 256 experts of 58 layers
           // more, which routes tokens. By hand, h = 7168: attention h 1536 + 1536 + 1536 x 128 x
           // 192 + h (512 + 64) + 512 + 512 x 128 x 256 + 128 x 128 h; 257 experts of 3 h 2048
           // and a router of 256 h, or 3 h 18432 in the first three; words 2 x 129280 h.
           Row{"moe", {{"config.like", "deepseek-v3"}}, 671'026'419'200 - 58 * 256},
           // Published, less the sinks of a block, one for each head.
           Row{"moe", {{"config.like", "gpt-oss-120b"}}, 116'829'156'672 - 36 * 64},
           // A block more, whose attention and experts are those above, with 2 h of norms; it
           // reads 2 h numbers by a product and two norms, and has a norm before its logits.
           Row{"moe",
               {{"config.like", "deepseek-v3"}, {"config.num_nextn_predict_layers", "1"}},
               671'026'419'200 - 58 * 256 + 187'107'328 + 257LL * 3 * 7168 * 2048 + 256 * 7168 +
                   2 * 7168 + 2LL * 7168 * 7168 + 3 * 7168},
           // Published: 31.6 billion. By hand, h = 2688: 23 mixers of h (2 x 4096 + 2 x 1024 +
           // 64)
           // + 5 x 6144 + 3 x 64 + 4096 + 4096 h, 23 layers of 128 experts of 2 h 1856, one of
           // 2 h 3712 and a router of 128 h, 6 attentions of 2 x 4096 h + 2 x 256 h; each with a
           // norm of h, and one behind them; words 2 x 131072 h.
           Row{"hybrid", {{"config.like", "nemotron-3-nano"}}, 31'577'937'344},
           Row{"moe", {}, 46'702'792'704},
           Row{"moe", {{"config.like", "8x22b"}}, 140'620'634'112},
       }) {
    CAPTURE(row.name);
    CHECK(weights(row.name, row.settings) == row.parameters);
    if (row.settings.contains("pretraining_heads")) continue;
    CHECK(parameters(generate(row.name, row.settings)) == row.parameters);
  }
}

TEST_CASE("GNMT at level tf1 has the variables and ops that Baechi counted") {
  const OpGraph g = gnmt("128", "40");
  // SoCC'20, table 6: 18 050 ops of 40 steps, 22 340 of 50, so 429 per step and 890 of none. Ours
  // are as many per step and 10 fewer of none.
  const std::size_t at_40 = connected(g);
  CHECK(at_40 == 18'040);
  CHECK(connected(gnmt("128", "50")) == at_40 + 10 * 429);
  // 53 of the 429 are forward; here those named after a step, the AddN and the Identities of
  // stacks are not.
  CHECK(connected(g, Phase::forward, "/step_7/") == 53);
  CHECK(count(g, "LSTMBlockCell") == 40 * 9);
  CHECK(count(g, "LSTMBlockCellGrad") == 40 * 9);
  // 24 trained variables, two of which are tables whose rows are updated; m and v of each, the
  // powers of two betas and the step.
  CHECK(count(g, "ApplyAdam") == 22);
  CHECK(count(g, "UnsortedSegmentSum") == 2);
  CHECK(count(g, "VariableV2") == 3 * 24 + 3);
  std::int64_t persistent = 0;
  for (const OpId v : g.ops()) persistent += g.op(v).persistent.count;
  CHECK(persistent == 4 * (3 * 70'740'480 + 3));
}

TEST_CASE("forward multiply-adds are the published ones") {
  // What is done per element, gates among it, adds less than 1 %.
  CHECK(forward_multiply_adds(gnmt("128", "40")) == doctest::Approx(2.050e11).epsilon(0.01));
  CHECK(forward_multiply_adds(gnmt("128", "50")) == doctest::Approx(2.563e11).epsilon(0.01));
  for (const char* level : {"module", "tf1"}) {
    CHECK(forward_multiply_adds(generate("gnmt", {{"batch", "256"}, {"level", level}})) ==
          doctest::Approx(4.100e11).epsilon(0.01));
  }
  // Two operations per weight and token but those of tables that are looked up, and 2 L d per
  // layer and token for attention: GPT-2 small 123 653 376 (without wpe) + 12 * 2 * 1024 * 768.
  CHECK(forward_multiply_adds(generate("gpt2", {{"batch", "1"}})) ==
        doctest::Approx(1024.0 * (123'653'376 + 12.0 * 2 * 1024 * 768)).epsilon(0.01));
  // Llama 7b: 6 738 415 616 - 32 000 * 4096; 32 * 2 * 2048 * 4096.
  CHECK(forward_multiply_adds(generate("llama", {})) ==
        doctest::Approx(2048.0 * (6'607'343'616.0 + 32.0 * 2 * 2048 * 4096)).epsilon(0.01));
  // Mixtral: 12 879 925 248 weights see a token, of which a table of 32 000 * 4096.
  CHECK(forward_multiply_adds(generate("moe", {})) ==
        doctest::Approx(2048.0 * (12'748'853'248.0 + 32.0 * 2 * 2048 * 4096)).epsilon(0.01));
}

TEST_CASE("BERT predicts as many words as are masked") {
  const auto flops = [](const char* masked) {
    const OpGraph g = generate("bert", {{"size", "large"},
                                        {"batch", "2"},
                                        {"masked", masked},
                                        {"kernels.fuse_modules", "false"},
                                        {"training", "false"}});
    std::int64_t head = 0;
    for (const OpId v : g.ops())
      if (g.name(v) == "cls/predictions/decoder") head += g.work(v).flops;
    return head;
  };
  // 2 samples of 20 or 128 words: 2 x 1024 x 30 522 operations each, and as many biases.
  CHECK(flops("20") == std::int64_t{40} * 30'522 * (2 * 1024 + 1));
  CHECK(flops("0") == std::int64_t{256} * 30'522 * (2 * 1024 + 1));
}

TEST_CASE("module level has the modules that users see") {
  const auto forward = [](std::string_view name, Settings settings = {}) {
    settings["training"] = "false";
    return generate(name, settings).num_ops();
  };
  CHECK(forward("transformer") == 35);  // Baechi, section 5.4
  CHECK(forward("bert") == 1 + 12 * 2 + 1 + 2);
  CHECK(forward("gpt2") == 1 + 12 * 2 + 2);
  CHECK(forward("llama") == 1 + 32 * 2 + 2);
  CHECK(forward("moe") == 1 + 32 * (1 + 1 + 8 + 1) + 2);
  // Two embeddings; of 40 steps 5 + 4 cells, an attention and the joining of both directions; two
  // stacks, keys, projection.
  CHECK(forward("gnmt") == 2 + 40 * (9 + 1 + 1) + 2 + 2);
}

TEST_CASE("memory of a step of GNMT is that reported by Baechi") {
  CHECK_FALSE(fits_one(gnmt("128", "50"), gigabytes(4.0)));
  CHECK_FALSE(fits_one(gnmt("128", "40"), gigabytes(2.4)));
  for (const char* batch : {"128", "256"}) {
    CHECK(fits_one(gnmt(batch, "40"), 8_GiB));
    CHECK(fits_one(gnmt(batch, "50"), 8_GiB));
  }
  // Its expert's fullest GPU has 2 GB, and runs with 2.4.
  const OpGraph graph = timed(gnmt("128", "40"));
  const Cluster cluster = baechi_cluster(4, gigabytes(2.4));
  const StepResult r = step_on(graph, cluster, by_expert("gnmt.rules", graph, cluster));
  CHECK_FALSE(r.oom);
  Bytes most;
  for (const DeviceId d : cluster.devices()) most = std::max(most, r.devices[d].peak);
  CHECK(static_cast<double>(most.count) == doctest::Approx(2.0e9).epsilon(0.1));
}

TEST_CASE("memory of a step of Transformer is that reported by Baechi") {
  CHECK_FALSE(fits_one(generate("transformer", {}), gigabytes(2.4)));
  CHECK(fits_one(generate("transformer", {{"batch", "128"}}), gigabytes(6.92)));
  const OpGraph graph = timed(generate("transformer", {}));
  const Cluster cluster = baechi_cluster(2, gigabytes(2.4));
  CHECK_FALSE(step_on(graph, cluster, by_expert("transformer.rules", graph, cluster)).oom);
}

TEST_CASE("the experts' rules match every op and keep groups whole") {
  struct Row {
    const char* model;
    Settings settings;
    const char* rules;
    std::size_t devices;
  };
  for (const Row& row :
       {Row{"gnmt", {{"level", "tf1"}, {"length", "6"}}, "gnmt.rules", 4},
        Row{"gnmt", {{"length", "6"}}, "gnmt.rules", 4},
        Row{"gnmt", {{"length", "6"}, {"kernels.fuse_modules", "false"}}, "gnmt.rules", 4},
        Row{"transformer", {}, "transformer.rules", 2},
        Row{"inception_v3", {{"level", "tf1"}}, "inception_v3.rules", 1}}) {
    CAPTURE(row.model);
    const OpGraph graph = timed(generate(row.model, row.settings));
    const Cluster cluster = baechi_cluster(row.devices, 8_GiB);
    const Placement p = by_expert(row.rules, graph, cluster);  // throws if an op has no rule
    std::vector<std::size_t> ops(row.devices);
    for (const OpId v : graph.ops()) ++ops[index(p.device[v])];
    CHECK(std::ranges::count(ops, 0U) == 0);
    for (const GroupId g : graph.groups()) {
      for (const OpId v : graph.members(g))
        CHECK(p.device[v] == p.device[graph.members(g).front()]);
    }
    // A gradient is where its forward op is, or where what it passes on was written.
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      if (op.forward == no_op || graph.kind(v) == "NoOp" || graph.kind(v) == "Identity") continue;
      CAPTURE(graph.name(v));
      CHECK(p.device[v] == p.device[op.forward]);
    }
  }
}

TEST_CASE("GNMT's expert has each layer on its GPU") {
  const OpGraph graph = timed(gnmt("16", "4"));
  const Cluster cluster = baechi_cluster(4, 8_GiB);
  const Placement p = by_expert("gnmt.rules", graph, cluster);
  const auto device = [&](std::string_view op) {
    CAPTURE(op);
    REQUIRE(graph.find(op));
    return p.device[*graph.find(op)];
  };
  CHECK(device("encoder/layer_1/fw/step_0/lstm/LSTMBlockCell") == gpu0);
  CHECK(device("encoder/layer_1/bw/step_3/lstm/LSTMBlockCell") == gpu0);
  for (const int layer : {2, 3, 4}) {
    const auto gpu = static_cast<DeviceId>(layer - 1);
    for (const char* side : {"encoder", "decoder"}) {
      const std::string at = fmt::format("{}/layer_{}/", side, layer);
      CHECK(device(at + "step_2/lstm/LSTMBlockCell") == gpu);
      CHECK(device("gradients/" + at + "step_2/lstm/LSTMBlockCell_grad/MatMul_1") == gpu);
      CHECK(device(at + "lstm/kernel") == gpu);
      CHECK(device("Adam/update_" + at + "lstm/kernel/ApplyAdam") == gpu);
    }
  }
  CHECK(device("decoder/attention/step_1/score/Tanh") == gpu0);
  CHECK(device("decoder/embedding/lookup/GatherV2") == gpu0);
  CHECK(device("encoder/stack/stack") == gpu3);
  CHECK(device("projection/Tensordot/MatMul") == gpu3);
  CHECK(device("gradients/projection/Tensordot/MatMul_grad/MatMul") == gpu3);
}

TEST_CASE("an invalid sequence model is rejected") {
  CHECK_REFUSED(generate("bert", {{"level", "tf1"}}),
                "bert-base-l128: level tf1 has no ops for PositionEmbedding; level module has one");
  CHECK_REFUSED(generate("gpt2", {{"length", "2000"}}), "gpt2.length: more than 1024");
  CHECK_REFUSED(generate("transformer", {{"num_attention_heads", "7"}}),
                "transformer.num_attention_heads: does not divide 'hidden_size'");
  CHECK_REFUSED(generate("moe", {{"num_experts_per_tok", "9"}}),
                "moe.num_experts_per_tok: is more than 'num_local_experts'");
  CHECK_REFUSED(generate("bert", {{"pretraining_heads", "false"}}),
                "bert.pretraining_heads: are what is trained: needed unless training is off");
  CHECK_REFUSED(generate("bert", {{"masked", "129"}}), "bert.masked: more than 'length'");
  CHECK_REFUSED(generate("llama", {{"batch", "1000000"}, {"length", "1000000"}}),
                "llama.batch: a layer of more than 10^17 multiply-adds");
}
