#include "traces/generate/gguf.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace baechi::generate {

extern const char* const families_json;

namespace {

constexpr std::string_view gguf_magic = "GGUF";

using Names = std::vector<std::pair<std::string, std::string>>;

/// Part "gguf" of families.json: types by their number; "" are unused. Keys behind the
/// architecture's name, and tensors, with what they are called elsewhere.
const nlohmann::json& facts(const char* part) {
  static const auto all = nlohmann::json::parse(families_json)["gguf"];
  return all[part];
}

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
      if (type >= facts("types").size() || facts("types")[type] == "")
        fail(fmt::format("an unknown type of tensor, {}", type));
      header.tensors[name] = {facts("types")[type], size};
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
    for (const auto& [theirs, ours] : facts("tensors").get<Names>())
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
  const auto of = [&](const std::string& key) { return said(architecture + "." + key); };
  nlohmann::json json{{"gguf", true},
                      {"model_type", family_of_gguf(architecture, !of("expert_count").empty())}};
  for (const auto& [theirs, ours] : facts("keys").get<Names>())
    if (const auto number = parse_number<std::int64_t>(of(theirs)))
      json[ours] = *number;
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
