/// Formats in which weights and caches are stored: blocks of numbers with common scales.
#pragma once
#include "sim/units.h"

namespace baechi {

/// `block` numbers take `bytes`; each row of a matrix takes `row` more.
struct NumberFormat {
  std::string_view name;
  std::int64_t bytes = 0, block = 1, row = 0;
  /// A type of GGUF: blocks are along rows. A tensor whose rows are no whole blocks is stored as
  /// `otherwise`.
  bool gguf = false;
  std::string_view otherwise{};

  /// Bytes of `rows` of `columns` numbers each, rounded up.
  Bytes of(std::int64_t rows, std::int64_t columns) const;
};
/// The format of this name, in any case; null if there is none.
const NumberFormat* find_number_format(std::string_view name);

/// A weight by its place in a model.
struct WeightPlace {
  std::string_view tensor;  ///< the last part of its module: "v_proj", "lm_head", "embed_tokens"
  std::int64_t layer = -1;  ///< -1: outside layers
  std::int64_t layers = 0;
  bool shared_keys = false;  ///< heads share keys and values
  std::int64_t experts = 0;  ///< of a layer
};

/// The formats of a model's weights: one for all, or a mixture of GGUF types by tensor.
struct WeightFormat {
  std::string_view name, base;
  std::string_view more{};        ///< of the head, and of v_proj and down_proj in some layers
  std::string_view values_70b{};  ///< of the other v_proj of 80 layers with shared keys
  std::string_view keys_of_8{}, output_of_8{};  ///< of k_proj and v_proj, o_proj, with 8 experts

  bool gguf() const { return find_number_format(base)->gguf; }
  const NumberFormat& at(const WeightPlace& place) const;
  /// Bytes of `rows` of `columns` inputs each.
  Bytes of(const WeightPlace& place, std::int64_t rows, std::int64_t columns) const {
    return at(place).of(rows, columns);
  }
};
/// The one of this name, in any case; none if there is none.
std::optional<WeightFormat> find_weight_format(std::string_view name);
/// "f32, f16, ...", for messages.
std::string weight_format_names();

}  // namespace baechi
