/// An XLA module, read from HLO or StableHLO text, and the work of its instructions.
#pragma once
#include <map>

#include "sim/graph/op_graph.h"

namespace baechi::hlo {

/// Element type ("f32") and dimensions of an array. An unknown dimension counts as 1.
struct Shape {
  std::string type;
  std::vector<std::int64_t> dims{};

  std::int64_t elements() const;  ///< at most 2^53
  std::int64_t bytes() const;     ///< at most 2^50; 0 for tokens
};

struct Operand {
  std::string name;
  std::int64_t part = -1;  ///< index of the result that is read; -1: all
  /// Index of the first instruction of this name in the computation; set by find_producers().
  std::size_t producer = unknown;
  static constexpr std::size_t unknown = ~std::size_t{0};
};

struct Instruction {
  std::string name;
  std::string opcode{};  ///< in HLO's spelling: "dot-general", "all-reduce"
  std::vector<Operand> operands{};
  std::vector<Shape> results{};         ///< a tuple's arrays, flattened
  std::vector<std::string> calls{};     ///< computations: fusion, call, while (condition, body)
  std::string attributes{};             ///< as written
  std::string scope{};                  ///< metadata's op_name
  std::optional<std::int64_t> value{};  ///< of an integer constant; a parameter's index
  std::size_t line = 0;
  bool root = false;  ///< marked as its computation's result
};

struct Computation {
  std::string name;
  std::vector<Instruction> instructions{};
};

struct Module {
  std::string name, path{};
  std::map<std::string, Computation, std::less<>> computations{};
  std::string entry{};
  bool entry_stated = true;   ///< if false: the last computation, or the first function
  std::size_t functions = 0;  ///< number of StableHLO functions
  std::int64_t devices = 0;   ///< replicas x partitions; 0: not stated
};

/// Sets Operand::producer of all operands by name, within their computation.
void find_producers(Module& module);

/// Throw InputError with the line on malformed text, or if there is no entry.
Module read_hlo(std::string_view text, const std::string& path);
Module read_stablehlo(std::string_view text, const std::string& path);

/// Flops and memory traffic of instructions, by formula.
class WorkModel {
 public:
  explicit WorkModel(const Module& module) : module_(module) {}
  /// The work of `instruction`: 2 flops per multiply-add of matmuls and convolutions, one flop per
  /// element elsewhere; traffic is each operand and result once. A fusion has the flops of its
  /// computation and the traffic of its operands and results, or of the slices of them that it
  /// accesses. A loop multiplies its body by the trip count. Matmuls have the precision of their
  /// operands; fusions and calls that of most of their flops.
  OpWork of(const Computation& computation, const Instruction& instruction);

  std::size_t loops() const { return loops_; }      ///< number of loops visited
  std::size_t unknown() const { return unknown_; }  ///< of these, loops without a known trip count
  std::size_t opaque() const { return opaque_; }    ///< custom calls, whose flops are unknown
  std::size_t inner_collectives() const {
    return inner_collectives_;
  }  ///< collectives in loops, calls and branches

 private:
  OpWork of_computation(std::string_view name);
  std::int64_t fusion_traffic(const Computation& computation, const Instruction& fusion) const;
  std::int64_t trips(const Instruction& loop);

  const Module& module_;
  std::map<std::string, OpWork, std::less<>> done_;
  int depth_ = 0;
  std::size_t loops_ = 0, unknown_ = 0, opaque_ = 0, inner_collectives_ = 0;
};

/// Whether the opcode is one of HLO or StableHLO.
bool is_known(std::string_view opcode);
/// The collective that the opcode performs or starts; nullopt for other opcodes.
std::optional<CollectiveKind> collective_kind(std::string_view opcode);
/// Whether the instruction runs no kernel: a parameter, a constant, a tuple or another view.
bool is_free(std::string_view opcode);
/// Whether the result aliases the operands, so that its readers read the operands.
bool is_transparent(std::string_view opcode);

/// The whole numbers in `text`: {8, 4} of "f8e4".
std::vector<std::int64_t> whole_numbers(std::string_view text);

/// The numbers in the brackets after `key` in `text`: {1, 0} of "dimensions={1,0}".
std::vector<std::int64_t> numbers_after(std::string_view text, std::string_view key);

/// The product of the numbers after the keys, each clamped to 1 to 2^20; 0 without either key.
std::int64_t stated_devices(std::string_view text, std::string_view replicas,
                            std::string_view partitions);

/// a * b, at most 2^60. Neither is negative.
std::int64_t capped_product(std::int64_t a, std::int64_t b);

/// Whether the instruction is a matmul or a library call of one; a convolution or a library call of
/// one.
bool is_matmul(const Instruction& instruction);
bool is_convolution(const Instruction& instruction);

/// Whether the custom-call is a sharding annotation ("Sharding"), which runs nothing.
bool is_annotation(const Instruction& instruction);

/// Bytes of the scratch buffer of a cuBLAS or cuDNN call: its last result, if that is an array of
/// bytes; else 0.
std::int64_t scratch_bytes(const Instruction& instruction);

/// 2 x elements of the result x contracted elements. 0 if `left` is null.
std::int64_t matmul_flops(const Instruction& matmul, const Shape* left);

/// 2 x elements of the result x filter elements per output feature. Padding is counted; zeros
/// inserted by input dilation (`lhs_dilate`) are not. cuDNN's gradients carry the attributes of
/// their forward convolution, and have its flops. 0 if an operand is null.
std::int64_t convolution_flops(const Instruction& conv, const Shape* left, const Shape* right);

/// Elements of the instruction's window; 1 if it has none.
std::int64_t window_elements(const Instruction& instruction);

}  // namespace baechi::hlo
