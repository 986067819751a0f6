#include <nlohmann/json.hpp>

#include "tests/prelude.h"
#include "tests/traces/generate/generated_graphs.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"
#include "traces/generate/config.h"

using generate::known_model;
using generate::known_models;
using generate::KnownModel;
using generate::other_release;
using generate::read_published_config;
using generate::read_published_file;

TEST_SUITE_BEGIN("traces");
TEST_CASE("every generator keeps the contract") {
  for (const GeneratorEntry& entry : generators()) {
    CAPTURE(entry.name);
    const Trace t = generate_trace(entry.name, Options(std::string(entry.name)));
    CHECK(t.format == entry.name);
    CHECK(t.graph.num_ops() > 0);
    CHECK((t.coverage.with_time == t.coverage.ops || t.graph.has_work()));
    CHECK(trace_json(t) ==
          trace_json(generate_trace(entry.name, Options(std::string(entry.name)))));
    CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
    CHECK_THROWS_AS(generate_trace(entry.name, options("g", {{"no_such_option", "1"}})),
                    InputError);
  }
  CHECK_REFUSED(generate_trace("layerd", Options("layerd"), "x.yaml:2:3"),
                doctest::Contains("x.yaml:2:3: no generator 'layerd' (did you mean 'layered'?) "
                                  "(generators: layered, alexnet, "));
}

TEST_CASE("layered: the requested number of ops, of which each reads one to three") {
  const auto make = [](const std::map<std::string, std::string>& o) {
    return generate_trace("layered", options("layered", o)).graph;
  };
  const OpGraph g = make({{"ops", "5000"}, {"width", "50"}, {"degree", "2"}, {"seed", "3"}});
  CHECK(g.num_ops() == 5000);
  for (const OpId v : g.ops()) {
    const std::size_t inputs = g.in_edges(v).size();
    CHECK(inputs <= 3);
    CHECK((inputs == 0) == (index(v) < 50));
    for (const OpId u : g.predecessors(v)) CHECK(index(v) / 50 - index(u) / 50 <= 8);
  }
  // Mean in-degree 2, less what two choices of the same op lose.
  CHECK(static_cast<double>(g.num_edges()) / 4950 == doctest::Approx(2.0).epsilon(0.05));
  const OpGraph ties = make({{"ties", "true"}, {"compute", "3 us"}});
  for (const OpId v : ties.ops()) CHECK(ties.op(v).compute == 3us);
  const OpGraph one = make({{"ops", "1"}, {"width", "7"}});
  CHECK(one.num_edges() == 0);
  const OpGraph chain = make({{"ops", "100"}, {"width", "1"}, {"degree", "1"}});
  CHECK(chain.num_edges() == 99);
  const OpGraph training = make({{"ops", "1000"}, {"training", "true"}});
  const OpGraph inference = make({{"ops", "1000"}});
  CHECK(training.num_ops() == 2000);
  CHECK(training.num_edges() == 2 * inference.num_edges() + 1000);  // each op's own backward
  CHECK(training.num_groups() == 1000);
  CHECK_THROWS_AS(make({{"degree", "4"}}), InputError);
  CHECK_THROWS_AS(make({{"ops", "0"}}), InputError);
}

namespace {

Trace make(const std::string& name, const std::string& seed, const std::string& size) {
  return generate_trace(name, Options(name, {{"seed", {seed, {}, {}}}, {"size", {size, {}, {}}}}));
}

}  // namespace

TEST_SUITE_BEGIN("generate");
TEST_CASE("a family draws a model by its seed: equal seeds give equal graphs, others differ") {
  for (const char* name : {"cells", "recurrent", "seq2seq", "blocks"}) {
    CAPTURE(name);
    const Trace one = make(name, "1", "1"), again = make(name, "1", "1");
    CHECK(one.graph.num_ops() == again.graph.num_ops());
    CHECK(one.graph.num_edges() == again.graph.num_edges());
    const Trace large = make(name, "1", "2");
    CHECK(large.graph.num_ops() > one.graph.num_ops() * 3 / 2);
    bool differs = false;
    for (const char* seed : {"2", "3", "4"})
      differs = differs || make(name, seed, "1").graph.num_ops() != one.graph.num_ops();
    CHECK(differs);
    std::size_t backward = 0, updates = 0;
    for (const OpId v : one.graph.ops()) {
      backward += one.graph.op(v).phase == Phase::backward ? 1U : 0U;
      updates += one.graph.op(v).phase == Phase::update ? 1U : 0U;
    }
    CHECK(backward > 0);
    CHECK(updates > 0);
  }
}

TEST_CASE("a recurrent cell has eight nodes in every step") {
  const Trace trace = make("recurrent", "5", "1");
  std::size_t nodes = 0, steps = 0;
  for (const OpId v : trace.graph.ops()) {
    if (trace.graph.op(v).phase != Phase::forward) continue;
    nodes += trace.graph.kind(v) == "RecurrentNode" ? 1U : 0U;
    steps += holds(trace.graph.name(v), "/node0") ? 1U : 0U;
  }
  CHECK(steps >= 10);
  CHECK(nodes == 8 * steps);
}

namespace {

/// As Hugging Face publishes it, but with 4 layers, the first without experts.
constexpr std::string_view deepseek = R"({"model_type": "deepseek_v3", "num_hidden_layers": 4,
  "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "qk_nope_head_dim": 16,
  "qk_rope_head_dim": 8, "v_head_dim": 16, "kv_lora_rank": 32, "q_lora_rank": null,
  "intermediate_size": 128, "moe_intermediate_size": 48, "n_routed_experts": 8,
  "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
  "vocab_size": 256, "tie_word_embeddings": false, "rms_norm_eps": 1e-06})";

}  // namespace

TEST_SUITE_BEGIN("config.json");
TEST_CASE("a published configuration says a generator and its options") {
  const auto config = read_published_config(deepseek, "config.json");
  CHECK(config.generator == "moe");
  CHECK(config.not_modelled.empty());
  CHECK(config.values.at("moe_intermediate_size") == "48");
  CHECK(config.values.at("intermediate_size") == "128");
  CHECK(config.values.at("num_local_experts") == "8");
  CHECK(config.values.at("shared_expert_intermediate_size") == "48");
  CHECK(config.values.at("head_dim") == "16");
  CHECK_FALSE(config.values.contains("q_lora_rank"));
}

// A block: queries 64 x 4 (16 + 8), keys and values 64 (32 + 8) + 32 x 4 x 32, their norm 32, the
// output 64 x 64, two norms of 64. The first has a network of 3 x 64 x 128, others eight experts
// and a shared one of 3 x 64 x 48 each, and a router of 64 x 8. Embeddings, logits, a norm.
TEST_CASE("a generator takes the file, and keys in place of its own") {
  const TemporaryFolder folder;
  write_file(folder.file("config.json"), deepseek);
  const Settings from{{"config", folder.file("config.json")}, {"length", "16"}};
  constexpr std::int64_t attention = 64 * 4 * 24 + 64 * 40 + 32 * 4 * 32 + 32 + 64 * 64 + 2 * 64;
  constexpr std::int64_t experts = 9 * 3 * 64 * 48 + 64 * 8;
  CHECK(forward_parameters(generated("moe", from)) ==
        4 * attention + 3 * 64 * 128 + 3 * experts + 2 * 256 * 64 + 64);
  CHECK(forward_parameters(generated("moe", with(from, {{"first_k_dense_replace", "4"}}))) ==
        4 * (attention + 3 * 64 * 128) + 2 * 256 * 64 + 64);
  CHECK(forward_parameters(
            generated("moe", {{"config", folder.file("config.json") + "+intermediate_size=64"},
                              {"length", "16"}})) ==
        4 * attention + 3 * 64 * 64 + 3 * experts + 2 * 256 * 64 + 64);
  CHECK_REFUSED(generated("llama", from), doctest::Contains("generator moe makes this model"));
}

TEST_CASE("what is not modelled is said, and what no generator makes is refused") {
  const auto mistral = read_published_config(
      R"({"model_type": "mistral", "sliding_window": 4096, "tie_word_embeddings": true,
            "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256,
            "partial_rotary_factor": 0.5})",
      "config.json");
  CHECK(mistral.generator == "llama");
  CHECK(mistral.not_modelled ==
        std::vector<std::string>{"partial_rotary_factor: positions are in all features of a head"});
  CHECK(mistral.values.at("layer_types") == "sliding_attention");
  CHECK(mistral.values.at("tie_word_embeddings") == "true");
  CHECK_REFUSED(read_published_config(R"({"model_type": "llama", "hidden_size": 64})", "c.json"),
                "c.json: it has no 'num_hidden_layers'");
  CHECK_REFUSED(read_published_config("[1]", "c.json"), "c.json: no JSON object");
  CHECK_REFUSED(
      read_published_config(std::string(100'000, '[') + std::string(100'000, ']'), "c.json"),
      "c.json: nested too deeply");
  CHECK(message<InputError>([] {
          read_published_config(R"({"model_type": "rwkv"})", "c.json");
        }).starts_with("c.json: no generator has model_type 'rwkv' (those of llama, mistral,"));
  CHECK(message<InputError>([] {
          read_published_config(R"({"model_type": "whisper"})", "c.json");
        }).ends_with("the nearest is t5: convolutions before the encoder"));
}

// Parameters as the model cards on huggingface.co state them. Biases and norms that are not
// modelled are few.
TEST_CASE("known models have as many parameters as their cards say, within 0.5 %") {
  for (const KnownModel& known : known_models()) {
    CAPTURE(known.name);
    if (known.parameters == 0) continue;
    const OpGraph graph =
        generated(known.generator.c_str(), {{"config", known.name}, {"length", "256"}});
    CHECK(static_cast<double>(forward_parameters(graph)) ==
          doctest::Approx(static_cast<double>(known.parameters)).epsilon(0.005));
  }
  // In Gemma 3 every sixth layer sees all tokens.
  CHECK(read_published_file("gemma-3-1b")
            .values.at("layer_types")
            .starts_with("sliding_attention sliding_attention sliding_attention "
                         "sliding_attention sliding_attention full_attention sliding"));
}

TEST_CASE("a model is known by the names that people write, and no other by its own") {
  for (const auto& [text, name] : std::to_array<std::pair<const char*, const char*>>(
           {{"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
            {"qwen2.5:7b", "qwen2.5-7b"},
            {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
            {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
            {"llama3.1:8b", "llama-3.1-8b"},
            {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"},
            {"mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"},
            {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"},
            {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
            {"google/gemma-2-9b-it", "gemma-2-9b"},
            {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"},
            {"deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"},
            {"Qwen/Qwen2-7B-Instruct", "qwen2-7b"},
            {"llama3.2", "llama-3.2-3b"},
            {"deepseek-r1:14b", "deepseek-r1-distill-qwen-14b"},
            {"gpt2-xl", "gpt2-xl"}}))
    CHECK(known_model(text) == name);
  for (const KnownModel& known : known_models()) {
    CHECK(known_model(known.name) == known.name);
    CHECK(other_release(known.name, known.name).empty());
  }
  // A release without a row of its own is another one, and is named.
  CHECK(other_release("mistralai/Mistral-7B-Instruct-v0.4", "mistral-7b") == "v0.4");
  CHECK(other_release("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1") == "0528");
  CHECK(other_release("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b").empty());
  CHECK(other_release("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini").empty());
  for (const char* other : {"gpt2-huge", "qwen2.5-8b", "llama", "deepseek", ""})
    CHECK_FALSE(known_model(other).has_value());
}

TEST_CASE("an old name of an option is refused, and the new one named") {
  const auto refused = [](const char* generator, const Settings& settings) {
    return message<InputError>([&] { generated(generator, settings); });
  };
  CHECK(refused("gpt", {{"layers", "2"}}) == "gpt.layers: called num_hidden_layers");
  CHECK(refused("hybrid", {{"layers", "M"}}) == "hybrid.layers: called hybrid_override_pattern");
  CHECK(refused("bert", {{"eager", "true"}}) == "bert.eager: called kernels=eager");
  CHECK(refused("llama", {{"size", "7b"}, {"config", "7b"}}) == "llama.size: called config");
  CHECK(refused("gpt", {{"kernels.lazy", "true"}}).starts_with("gpt.kernels has no option 'lazy'"));
  CHECK(holds(refused("llama", {{"config", "7c"}}), "'7c' is not one of"));
}
