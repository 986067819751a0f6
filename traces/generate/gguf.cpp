#include "traces/generate/gguf.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/error.h"

namespace baechi::generate {
namespace {

constexpr std::string_view gguf_magic = "GGUF";

/// ggml_type, by number; "" are unused.
constexpr auto gguf_types = std::to_array<std::string_view>(
    {"f32",     "f16",   "q4_0",   "q4_1",  "",      "",       "q5_0", "q5_1",    "q8_0",
     "q8_1",    "q2_k",  "q3_k",   "q4_k",  "q5_k",  "q6_k",   "q8_k", "iq2_xxs", "iq2_xs",
     "iq3_xxs", "iq1_s", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs", "",     "",        "",
     "",        "",      "iq1_m",  "bf16",  "",      "",       "",     "",        "",
     "",        "",      "",       "mxfp4", "nvfp4"});

class GgufReader {
 public:
  explicit GgufReader(const std::string& path) : path_(path), in_(path, std::ios::binary) {
    if (!in_) throw InputError(path + ": cannot be read");
  }

  GgufHeader run() {
    if (bytes(gguf_magic.size()) != gguf_magic) fail("no GGUF file");
    if (const auto version = number<std::uint32_t>(); version < 2 || version > 3)
      fail(fmt::format("GGUF version {}; versions 2 and 3 are read", version));
    const auto tensors = number<std::uint64_t>(), values = number<std::uint64_t>();
    GgufHeader header;
    for (std::uint64_t i = 0; i < values; ++i) {
      const std::string key = text();
      header.values[key] = value(number<std::uint32_t>());
    }
    for (std::uint64_t i = 0; i < tensors; ++i) {
      const std::string name = text();
      const auto dimensions = number<std::uint32_t>();
      if (dimensions > 8) fail("a tensor of more than 8 dimensions");
      std::int64_t size = 1;
      for (std::uint32_t d = 0; d < dimensions; ++d)
        if (__builtin_mul_overflow(size, number<std::int64_t>(), &size) || size < 0)
          fail("a tensor of more than 2^63 numbers");
      const auto type = number<std::uint32_t>();
      if (type >= gguf_types.size() || gguf_types[type].empty())
        fail(fmt::format("an unknown type of tensor, {}", type));
      header.tensors[name] = {std::string(gguf_types[type]), size};
      number<std::uint64_t>();  // where its data are
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", path_, what));
  }

  std::string bytes(std::uint64_t count) {
    constexpr std::uint64_t most = std::uint64_t{1} << 24U;
    if (count > most) fail("a text of more than 16 MiB in its header");
    std::string read(count, '\0');
    if (!in_.read(read.data(), static_cast<std::streamsize>(count))) fail("ends within its header");
    return read;
  }
  template <class Number>
  Number number() {
    Number read{};
    std::memcpy(&read, bytes(sizeof(Number)).data(), sizeof(Number));
    return read;
  }
  std::string text() { return bytes(number<std::uint64_t>()); }

  std::string value(std::uint32_t type) {
    constexpr std::array<std::size_t, 13> size{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    constexpr std::uint32_t of_text = 8, list = 9;
    if (type == of_text) return text();
    if (type >= size.size()) fail(fmt::format("an unknown type of value, {}", type));
    if (type == list) {
      const auto inner = number<std::uint32_t>();
      const auto count = number<std::uint64_t>();
      if (inner == list) fail("a list of lists in its header");
      for (std::uint64_t i = 0; i < count; ++i) value(inner);
      return fmt::format("[{}]", count);
    }
    const std::string read = bytes(size[type]);
    std::uint64_t whole = 0;
    std::memcpy(&whole, read.data(), read.size());
    return std::to_string(whole);
  }

  std::string path_;
  std::ifstream in_;
};

/// Keys behind the architecture's name, and those of config.json with this meaning.
constexpr auto gguf_keys = std::to_array<std::pair<const char*, std::string_view>>(
    {{"block_count", "num_hidden_layers"},
     {"embedding_length", "hidden_size"},
     {"attention.head_count", "num_attention_heads"},
     {"attention.head_count_kv", "num_key_value_heads"},
     {"attention.key_length", "head_dim"},
     {"attention.key_length_mla", "key_length_mla"},
     {"attention.sliding_window", "sliding_window"},
     {"attention.kv_lora_rank", "kv_lora_rank"},
     {"attention.q_lora_rank", "q_lora_rank"},
     {"rope.dimension_count", "qk_rope_head_dim"},
     {"feed_forward_length", "intermediate_size"},
     {"feed_forward_length", "intermediate_size_mlp"},
     {"expert_feed_forward_length", "moe_intermediate_size"},
     {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
     {"expert_count", "num_local_experts"},
     {"expert_used_count", "num_experts_per_tok"},
     {"expert_shared_count", "n_shared_experts"},
     {"leading_dense_block_count", "first_k_dense_replace"},
     {"interleave_moe_layer_step", "interleave_moe_layer_step"},
     {"context_length", "max_position_embeddings"},
     {"vocab_size", "vocab_size"}});

constexpr auto gguf_names =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"attn_q", "q_proj"},
                                                                  {"attn_qkv", "q_proj"},
                                                                  {"attn_qkv", "k_proj"},
                                                                  {"attn_qkv", "v_proj"},
                                                                  {"attn_k", "k_proj"},
                                                                  {"attn_v", "v_proj"},
                                                                  {"attn_output", "o_proj"},
                                                                  {"ffn_gate", "gate_proj"},
                                                                  {"ffn_up", "up_proj"},
                                                                  {"ffn_down", "down_proj"},
                                                                  {"ffn_gate_exps", "gate_proj"},
                                                                  {"ffn_up_exps", "up_proj"},
                                                                  {"ffn_down_exps", "down_proj"},
                                                                  {"token_embd", "embed_tokens"},
                                                                  {"output", "lm_head"}});

/// The type of most numbers, and behind it those of tensors that have another, by our names:
/// "q4_k+layer_3/v_proj=q6_k".
std::string types_of(const GgufHeader& header, bool tied) {
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [name, tensor] : header.tensors) numbers[tensor.type] += tensor.numbers;
  if (numbers.empty()) return "";
  const std::string most =
      std::ranges::max_element(numbers, {}, [](const auto& of) { return of.second; })->first;
  std::string weights = most;
  for (const auto& [name, tensor] : header.tensors) {
    if (!name.ends_with(".weight") || tensor.type == most) continue;
    const std::string path = name.substr(0, name.rfind('.'));
    const std::size_t dot = path.rfind('.');
    const std::string layer =
        path.starts_with("blk.") ? "layer_" + path.substr(4, dot - 4) + "/" : "";
    for (const auto& [theirs, ours] : gguf_names)
      if (path.substr(dot + 1) == theirs)
        weights += fmt::format("+{}{}={}", layer, tied && ours == "embed_tokens" ? "lm_head" : ours,
                               tensor.type);
  }
  return weights;
}

}  // namespace

bool is_gguf(const std::string& path) {
  std::array<char, gguf_magic.size()> beginning{};
  std::ifstream in(path, std::ios::binary);
  return in.read(beginning.data(), beginning.size()) &&
         std::string_view(beginning.data(), beginning.size()) == gguf_magic;
}

GgufHeader read_gguf(const std::string& path) {
  static_assert(std::endian::native == std::endian::little);
  return GgufReader(path).run();
}

PublishedConfig read_gguf_config(const std::string& path) {
  const GgufHeader header = read_gguf(path);
  const auto said = [&](const std::string& key) {
    const auto found = header.values.find(key);
    return found == header.values.end() ? std::string() : found->second;
  };
  const std::string architecture = said("general.architecture");
  const auto of = [&](const char* key) { return said(architecture + "." + key); };
  nlohmann::json json{{"gguf", true},
                      {"model_type", family_of_gguf(architecture, !of("expert_count").empty())}};
  for (const auto& [theirs, ours] : gguf_keys)
    if (const auto number = parse_number<std::int64_t>(of(theirs)))
      json[std::string(ours)] = *number;
    else if (!of(theirs).empty())
      throw InputError(fmt::format("{}: {} differs between layers", path, theirs));
  const std::string words = said("tokenizer.ggml.tokens");
  if (!json.contains("vocab_size") && words.size() > 2)
    json["vocab_size"] = parse_number<std::int64_t>(words.substr(1, words.size() - 2)).value_or(0);
  if (json.contains("kv_lora_rank")) {  // every head has its own keys, as wide as these
    const std::int64_t turned = json.value("qk_rope_head_dim", std::int64_t{0});
    json["num_key_value_heads"] = json["num_attention_heads"];
    json["qk_nope_head_dim"] =
        json.value("key_length_mla", json.value("head_dim", std::int64_t{0})) - turned;
    json.erase("head_dim");
  }
  const bool tied = !header.tensors.contains("output.weight");
  json["tie_word_embeddings"] = tied;
  PublishedConfig config = read_published_config(json.dump(), path);
  config.values["weights"] = types_of(header, tied);
  return config;
}

}  // namespace baechi::generate
