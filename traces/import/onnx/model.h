/// An ONNX model, without the contents of large tensors.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {
class TextFile;
}

namespace baechi::onnx {

constexpr std::int64_t most_dim = std::int64_t{1} << 40;  ///< largest dimension
constexpr std::size_t most_values = 256;  ///< elements of the largest tensor whose values are kept

using Shape = std::vector<std::int64_t>;

/// TensorProto.DataType.
enum class ElementType : std::uint8_t {
  unknown = 0,
  float32 = 1,
  uint8 = 2,
  int32 = 6,
  int64 = 7,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  bfloat16 = 16
};
/// The name of a float narrower than fp32, such as "float8e4m3fn"; "" for other types.
std::string_view word_of(ElementType type);
/// Bits of an element; 0 if unknown. Elements of less than a byte are packed.
std::int64_t bits_of(ElementType type);

/// The known facts of a tensor.
struct TensorInfo {
  ElementType type = ElementType::unknown;
  std::optional<Shape> shape{};
  /// The elements of a small tensor such as a shape or scales, in C order. Integers are exact up to
  /// 2^53; larger ones mean "to the end" of a slice.
  std::optional<std::vector<double>> values{};

  std::optional<std::int64_t> elements() const;  ///< nullopt if unknown or over 2^60
  std::optional<std::int64_t> bytes() const;
};

struct Initializer {
  std::string name;
  TensorInfo info;
  bool external = false;  ///< its contents are in another file
};

/// A graph input, or a value whose shape is in the file. A dynamic dimension is -1, and its name,
/// if any, is in `symbols`.
struct ValueInfo {
  std::string name;
  ElementType type = ElementType::unknown;
  std::optional<Shape> shape{};
  std::vector<std::string> symbols{};  ///< [shape]
};

struct Attribute {
  std::int64_t i = 0;
  std::string s{};
  std::vector<std::int64_t> ints{};
  std::optional<TensorInfo> tensor{};
  bool has_graph = false;
};

struct Node {
  std::string name{}, op_type{}, domain{};
  std::vector<std::string> inputs{}, outputs{};
  std::map<std::string, Attribute, std::less<>> attributes{};
  std::uint64_t position = 0;  ///< byte in the file, from 0

  std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
  /// The attribute's integers; nullopt if it is missing.
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute) const;
};

struct Model {
  std::int64_t ir_version = 0, opset = 0;
  std::string producer, name;
  std::vector<Node> nodes;
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  std::vector<std::string>
      functions;  ///< names of operators that the model defines; their bodies are not read
};

/// Throws InputError if the file is truncated, is not an ONNX model, or has no graph.
Model read_model(TextFile& file);

}  // namespace baechi::onnx
