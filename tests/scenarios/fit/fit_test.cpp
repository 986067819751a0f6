#include "scenarios/fit/fit.h"

#include <cstring>

#include "placers/layer_line.h"
#include "scenarios/read/choice_text.h"
#include "sim/random.h"
#include "tests/prelude.h"
#include "traces/generate/gguf.h"

using baechi::generate::read_gguf;

namespace {

constexpr const char* small_llama =
    "llama:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,num_key_value_heads=2,"
    "intermediate_size=512,vocab_size=1024";

FitQuestion fit_question(const std::string& model, const std::string& gpus,
                         const std::string& memory, std::int64_t context) {
  Mistakes mistakes;
  FitQuestion q{.model = read_fit_model(model, "")};
  q.gpus = read_device_words({.devices = gpus, .memory = memory, .prefix = "--"}, mistakes);
  mistakes.throw_if_any();
  q.host_kind = "cpu_ddr4_2ch";
  q.between = q.to_host = {.bandwidth = {6e9}, .latency = 100us};
  q.context = context;
  return q;
}

/// Three layers of 10 B on devices of 30 B: while any run, 5 B more.
Line line_of_three(std::vector<LineDevice> devices) {
  for (LineDevice& d : devices) d.held = {10_B, 10_B, 10_B};
  return {std::move(devices), 3, [](std::size_t, std::size_t) { return 5_B; }};
}

/// A GGUF value or tensor, in the format's bytes.
struct GgufBytes {
  std::string bytes;
  template <class Number>
  void put(Number n) {
    bytes.append(reinterpret_cast<const char*>(&n), sizeof(n));  // NOLINT
  }
  void text(const std::string& t) {
    put(std::uint64_t{t.size()});
    bytes += t;
  }
  void value(const std::string& key, std::uint32_t number) {
    text(key);
    put(std::uint32_t{4});
    put(number);
  }
  void tensor(const std::string& name, std::uint64_t columns, std::uint64_t rows,
              std::uint32_t type) {
    text(name);
    put(std::uint32_t{2});
    put(columns);
    put(rows);
    put(type);
    put(std::uint64_t{0});
  }
};

std::string gguf_file(bool output = true, std::uint32_t type = 12) {
  GgufBytes file{"GGUF"};
  file.put(std::uint32_t{3});
  file.put(std::uint64_t{output ? 3U : 2U});
  file.put(std::uint64_t{7});
  file.text("general.architecture");
  file.put(std::uint32_t{8});
  file.text("llama");
  for (const auto& [key, number] :
       std::vector<std::pair<const char*, std::uint32_t>>{{"block_count", 2},
                                                          {"embedding_length", 256},
                                                          {"feed_forward_length", 512},
                                                          {"attention.head_count", 4},
                                                          {"context_length", 1024}})
    file.value(std::string("llama.") + key, number);
  file.text("tokenizer.ggml.tokens");  // a list of 32 texts
  file.put(std::uint32_t{9});
  file.put(std::uint32_t{8});
  file.put(std::uint64_t{32});
  for (int i = 0; i < 32; ++i) file.text("ab");
  file.tensor("blk.0.attn_q.weight", 256, 256, type);
  file.tensor("blk.1.attn_q.weight", 256, 257, 12);
  if (output) file.tensor("output.weight", 256, 32, 14);
  return file.bytes;
}

}  // namespace

TEST_SUITE_BEGIN("fit");
TEST_CASE("layers are numbered parts of a model, and what is outside them") {
  CHECK(module_layer("model.layers.3.self_attn.q_proj") == "model.layers.3");
  CHECK(module_layer("layer_12.mlp") == "layer_12");
  CHECK(module_layer("transformer.h.0") == "transformer.h.0");
  CHECK(module_layer("lm_head") == "lm_head");
  CHECK(is_numbered("model.layers.3"));
  CHECK_FALSE(is_numbered("conv2d"));
}

TEST_CASE("layers are divided where the sum of times is least, and memory allows it") {
  // 30 B hold two layers and 5 B; the second device is faster, and takes two.
  const std::vector<Duration> slow{10ms, 10ms, 10ms}, fast{4ms, 4ms, 4ms};
  CHECK(line_of_three({{.memory = 30_B, .times = slow}, {.memory = 30_B, .times = fast}})
            .divided(1ms) == std::vector<std::size_t>{0, 1, 3});
  // Both are equal: no division is faster, and the busiest has two in any. With 35 B one
  // suffices.
  CHECK(line_of_three({{.memory = 35_B, .times = slow}, {.memory = 35_B, .times = slow}})
            .divided(1ms) == std::vector<std::size_t>{0, 3, 3});
  // Three layers on one device of 30 B: 3 x 10 + 5 - 30.
  CHECK(line_of_three({{.memory = 30_B, .times = slow}}).lacking() == 5_B);
  CHECK_FALSE(line_of_three({{.memory = 30_B, .times = slow}}).divided(1ms));
  // A device that takes one layer: 5 + 10; the next lacks 5 + 20 - 20.
  CHECK(
      line_of_three({{.memory = 15_B, .times = slow}, {.memory = 20_B, .times = slow}}).lacking() ==
      5_B);
}

TEST_CASE("what layers hold while they run is what the engine finds") {
  const FitModel model = read_fit_model(small_llama, "");
  const Trace trace = model.prefill({.context = 64}, 0, 64);
  const OpGraph& graph = trace.graph;
  const ModelLayers layers(graph, [](OpId) { return false; });
  const LayerNeeds needs(graph, layers);
  IdVector<OpId, Duration> times(graph.num_ops(), 1ms);
  const OpGraph timed = graph.with_times("", times);
  const Cluster cluster = Cluster::uniform(2, 1_GiB, {.bandwidth = {1e9}, .latency = {}});
  const ProfiledCosts costs(timed, cluster);
  for (std::size_t cut = 1; cut < layers.size(); ++cut) {
    Placement placement;
    Bytes held[2];
    for (const OpId v : graph.ops()) {
      placement.device.push_back(layers.of[v] < cut ? gpu0 : gpu1);
      held[index(placement.device[v])] += graph.op(v).persistent;
    }
    const StepResult step = simulate({timed, cluster, costs}, placement);
    CAPTURE(cut);
    CHECK(step.devices[gpu0].peak - held[0] == needs.transient(0, cut));
    CHECK(step.devices[gpu1].peak - held[1] == needs.transient(cut, layers.size()));
  }
}

TEST_CASE("more memory, less context and fewer bits never turn fits into does not fit") {
  Random random(7);
  std::size_t fit_once = 0;
  for (int i = 0; i < 40; ++i) {
    const auto memory = static_cast<std::int64_t>(3 + random.below(40));
    const std::int64_t context = 256 * (1 + random.below(16));
    const char* gpus = random.below(2) == 0 ? "1xrtx_4090" : "2xrtx_4090";
    const auto asks = [&](std::int64_t mib, std::int64_t tokens, const std::string& options) {
      return fit(fit_question(small_llama + options, gpus, fmt::format("{}M", mib), tokens)).fits;
    };
    if (!asks(memory, context, "")) continue;
    ++fit_once;
    INFO(memory, " ", context);
    CHECK(asks(memory + random.below(20), context, ""));
    CHECK(asks(memory, 1 + random.below(static_cast<std::uint32_t>(context)), ""));
    CHECK(asks(memory, context, ",weights=q8_0"));
    CHECK(asks(memory, context, ",cache_dtype=q8_0"));
  }
  CHECK(fit_once > 5);
}

// Less than 5 % apart is equal; shares that were measured on one GPU differ by as much.
TEST_CASE("a GPU that is at least as good in every figure writes no fewer tokens") {
  const DeviceModels& devices = built_in_devices().devices;
  std::vector<std::pair<const DeviceModel*, FitAnswer>> gpus;
  for (const auto& [name, model] : devices) {
    const auto is_variant = [&, &label = name, &memory = model->memory](const auto& other) {
      return label.starts_with(other.first + "_") && memory == other.second->memory;
    };
    if (model->compute_capability < 6.0 || std::ranges::any_of(devices, is_variant)) continue;
    gpus.emplace_back(model.get(),
                      fit(fit_question("llama:size=3-8b,num_hidden_layers=1,vocab_size=1024", name,
                                       "40G", 8192)));
  }
  CHECK(gpus.size() > 60);
  const auto as_good = [](const DeviceModel& a, const DeviceModel& b) {
    bool good = a.compute_capability == b.compute_capability &&
                a.bandwidth.bytes_per_second >= b.bandwidth.bytes_per_second;
    for (const Precision p : all<Precision>()) good &= a.at(p).peak >= b.at(p).peak;
    return good;
  };
  for (const auto& [a, ways_of_a] : gpus)
    for (const auto& [b, ways_of_b] : gpus)
      for (const FitWay& one : ways_of_a.ways)
        for (const FitWay& other : ways_of_b.ways)
          if (as_good(*a, *b) && one.name == other.name) {
            INFO(a->name, ", ", b->name, ": ", one.name);
            CHECK(one.per_second > 0.95 * other.per_second);
          }
}

TEST_CASE("every way that fits is within memory, and the largest context and batch are exact") {
  FitQuestion q = fit_question(small_llama, "1xrtx_4090,1xrtx_3090", "12M,10M", 2048);
  q.host = 1_GiB;
  const FitAnswer answer = fit(q);
  REQUIRE(!answer.ways.empty());
  for (const FitWay& way : answer.ways) {
    CAPTURE(way.name);
    if (!way.fits) {
      CHECK(way.lacks > Bytes{});
      continue;
    }
    for (const FitMemory& m : way.memory) CHECK(m.spare() >= Bytes{});
    CHECK(way.most_context >= way.variant.context / 256 * 256);
    CHECK(way.most_batch >= 1);
  }
  const auto first_fits = [](FitQuestion asked) { return fit(asked).fits; };
  if (answer.fits) {
    const auto as_is = std::ranges::find(answer.ways, "as is", &FitWay::name);
    q.context = as_is->most_context;
    CHECK(first_fits(q));
    q.context += 256;
    CHECK_FALSE(first_fits(q));
  }
}

TEST_CASE("parts of a prompt follow each other through GPUs") {
  // One part is on one GPU after the other; of eight parts, both GPUs work at once.
  const auto first_token = [](const std::string& gpus, const char* memory, std::int64_t prompt) {
    FitQuestion q = fit_question(small_llama, gpus, memory, 4096);
    q.between = {.bandwidth = {1e12}, .latency = 0ns};
    q.prompt = prompt;
    const FitAnswer answer = fit(q);
    CHECK(answer.fits);
    return to_us(std::ranges::find(answer.ways, "as is", &FitWay::name)->first_token);
  };
  const double one = first_token("1xrtx_3090", "100 MB", 512),
               two = first_token("2xrtx_3090", "62 MB", 512);
  CHECK(two == doctest::Approx(one).epsilon(0.05));
  const double many = first_token("1xrtx_3090", "100 MB", 4096),
               shared = first_token("2xrtx_3090", "62 MB", 4096);
  CHECK(many > 8 * one);  // later parts see more tokens
  CHECK(shared < 0.75 * many);
  CHECK(shared > 0.5 * many);
}

TEST_CASE("a GGUF file is read by its header alone") {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.gguf", gguf_file());
  CHECK(read_gguf(path).values.at("llama.block_count") == "2");
  CHECK(read_gguf(path).tensors.at("output.weight").type == "q6_k");
  CHECK(read_gguf(path).tensors.at("blk.0.attn_q.weight").numbers == 65'536);
  const FitModel model = read_fit_model(path, "");
  CHECK(model.trained_context == 1024);
  CHECK(model.weights == "q4_k_m");
  CHECK(model.decode({.context = 8}).graph.num_ops() == 7);
  // Tensors have the types that the file says: blocks of 256 numbers take 144 B, q_proj of the
  // first layer 176 B.
  const auto held = [&](std::uint32_t type, const char* name) {
    const Trace decode =
        read_fit_model(folder.write(name, gguf_file(true, type)), "").decode({.context = 8});
    Bytes sum;
    for (const OpId v : decode.graph.ops()) sum += decode.graph.op(v).persistent;
    return sum;
  };
  CHECK(held(13, "q5.gguf") - held(12, "q4.gguf") == Bytes{256 * (176 - 144)});
  // Without a tensor of its own the head has the 32 words' table, here of 144 B for 256 numbers.
  const auto weights = [&](bool output, const char* name) {
    FitModel one = read_fit_model(folder.write(name, gguf_file(output)), "");
    one.options.set("weights", {"q4_k", "", {}});
    const Trace decode = one.decode({.context = 8});
    Bytes sum;
    for (const OpId v : decode.graph.ops())
      sum += decode.graph.op(v).persistent - decode.graph.cache(v);
    return sum;
  };
  CHECK(weights(true, "two.gguf") - weights(false, "one.gguf") == Bytes{32 * 144});
  const std::string cut = folder.write("cut.gguf", gguf_file().substr(0, 100));
  CHECK(message<InputError>([&] { read_gguf(cut); }) == cut + ": ends within its header");
}
