/// A module of XLA, read from HLO's text or StableHLO's.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi::hlo {

/// The type of an array: "f32" and its sides. A side of unknown length counts as 1.
struct Shape {
  std::string type;
  std::vector<std::int64_t> sides{};

  std::int64_t elements() const;  ///< at most 2^50
  std::int64_t bytes() const;     ///< at most 2^50; 0 for tokens
};

struct Operand {
  std::string name;
  std::int64_t part = -1;  ///< which result is read; -1: all
  /// The place of the instruction that makes it, by find_makers(): the first so called.
  std::size_t maker = unknown;
  static constexpr std::size_t unknown = ~std::size_t{0};
};

struct Instruction {
  std::string name;
  std::string opcode{};  ///< in HLO's spelling: "dot-general", "all-reduce"
  std::vector<Operand> operands{};
  std::vector<Shape> results{};         ///< a tuple's arrays, one after the other
  std::vector<std::string> calls{};     ///< computations: fusion, call, while (condition, body)
  std::string attributes{};             ///< as written
  std::string scope{};                  ///< metadata's op_name
  std::optional<std::int64_t> value{};  ///< a constant that is a whole number; a parameter's place
  std::size_t line = 0;
  bool root = false;  ///< marked as its computation's result
};

struct Computation {
  std::string name;
  std::vector<Instruction> instructions{};
};

struct Module {
  std::string name;
  std::map<std::string, Computation, std::less<>> computations{};
  std::string entry{};
  bool entry_stated = true;   ///< else it is the last computation, or the first function
  std::size_t functions = 0;  ///< of StableHLO
  std::int64_t devices = 0;   ///< that run the program together; 0: not said
};

/// Sets Operand::maker of all operands, each by its name within its computation.
void find_makers(Module& module);

/// Throw InputError with the line if the text is not of this kind, or has no entry.
Module read_hlo(std::string_view text, const std::string& path);
Module read_stablehlo(std::string_view text, const std::string& path);

/// What the formulas need to know of an instruction's surroundings.
class Works {
 public:
  explicit Works(const Module& module) : module_(module) {}
  /// The work of `instruction` of `computation`: multiply-adds of products and convolutions, one
  /// flop per element elsewhere, each operand and result once. A fusion computes what it calls, and
  /// reads and writes its operands and results alone, or the slices of them that it takes; a loop's
  /// body runs as often as it says. What multiplies counts in the precision of what it multiplies,
  /// what calls in that of most of the flops.
  OpWork of(const Computation& computation, const Instruction& instruction);

  std::size_t loops() const { return loops_; }      ///< loops that were met
  std::size_t unknown() const { return unknown_; }  ///< of them, without a known trip count
  std::size_t opaque() const { return opaque_; }    ///< calls of programs whose work is not known
  std::size_t inner_collectives() const { return inner_collectives_; }  ///< in loops and calls

 private:
  OpWork of_computation(std::string_view name);
  std::int64_t fusion_traffic(const Computation& computation, const Instruction& fusion) const;
  std::int64_t trips(const Instruction& loop);

  const Module& module_;
  std::map<std::string, OpWork, std::less<>> done_;
  int depth_ = 0;
  std::size_t loops_ = 0, unknown_ = 0, opaque_ = 0, inner_collectives_ = 0;
};

/// Whether the opcode is one of HLO's or StableHLO's; others are counted by their results'
/// elements.
bool is_known(std::string_view opcode);
/// What ranks do together: all-reduce and the like, also the start of one.
std::optional<CollectiveKind> collective_kind(std::string_view opcode);
/// Whether the instruction runs nothing: a parameter, a constant, a tuple, another view.
bool is_free(std::string_view opcode);
/// Whether its result is its operands' memory, so that its readers read theirs.
bool is_transparent(std::string_view opcode);

/// The numbers in the brackets behind `key` in `text`: {1, 0} of "dimensions={1,0}".
std::vector<std::int64_t> numbers_after(std::string_view text, std::string_view key);

/// The number behind `key`, 1 to 2^20; 1 if there is none.
std::int64_t stated_count(std::string_view text, std::string_view key);

/// a * b, at most 2^60. Neither is negative.
std::int64_t times(std::int64_t a, std::int64_t b);

}  // namespace baechi::hlo
