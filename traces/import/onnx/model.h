/// An ONNX model as its file has it, without the contents of large tensors.
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

constexpr std::int64_t most_side = std::int64_t{1} << 40;  ///< of a shape
constexpr std::size_t most_values = 256;                   ///< of a tensor whose elements are kept

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
/// Bits of one element; 0 if not known. Elements of less than a byte are packed.
std::int64_t bits_of(ElementType type);

/// The known facts of a tensor.
struct TensorInfo {
  ElementType type = ElementType::unknown;
  std::optional<Shape> shape{};
  /// The elements of a small tensor, in C order: of a shape, of scales. Integers are exact to 2^53;
  /// larger ones stand for "to the end".
  std::optional<std::vector<double>> values{};

  std::optional<std::int64_t> elements() const;  ///< nothing if not known, or over 2^60
  std::optional<std::int64_t> bytes() const;
};

struct Initializer {
  std::string name;
  TensorInfo info;
  bool external = false;  ///< its contents are in another file
};

/// A graph's input, or a value whose shape the file states. A side of unknown length is -1; its
/// name, if it has one, is in `symbols`.
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
  std::uint64_t position = 0;  ///< byte of the file, from 0

  std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
  /// The attribute's integers; nothing if it is not given.
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute) const;
};

struct Model {
  std::int64_t ir_version = 0, opset = 0;
  std::string producer, name;
  std::vector<Node> nodes;
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  std::vector<std::string> functions;  ///< operators that the model defines; not read
};

/// Throws InputError if the file is cut short, is no ONNX model, or has no graph.
Model read_model(TextFile& file);

}  // namespace baechi::onnx
