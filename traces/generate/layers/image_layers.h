/// Layers of convolutional networks. Each adds itself to the model and returns what it writes.
#pragma once
#include <span>

#include "sim/options.h"
#include "traces/generate/model.h"

namespace baechi {

/// Option `classes`, 1000 unless told.
std::int64_t read_classes(Options& options);

/// How many pixels are added around an image. `valid`: none; `same`: as many as keep
/// ceil(size / stride), as TensorFlow says it.
struct Padding {
  std::int64_t pixels = 0;
  bool keeps_size = false;
};
inline constexpr Padding valid{}, same{.keeps_size = true};
constexpr Padding padded(std::int64_t pixels) {
  return {.pixels = pixels};
}

/// Height and width; one number stands for both.
struct Kernel {
  std::int64_t height = 1, width = 1;
  constexpr Kernel(std::int64_t side) : height(side), width(side) {}  // NOLINT: 3 is 3x3
  constexpr Kernel(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};

struct Conv2d {
  std::int64_t filters = 1;
  Kernel kernel = 1;
  std::int64_t stride = 1;
  Padding padding = valid;
  bool bias = false;
};
ValueId conv2d(Model& model, std::string_view name, ValueId x, const Conv2d& options);

struct BatchNorm {
  bool scale = true;    ///< has a gamma
  bool frozen = false;  ///< by its moving statistics
};
ValueId batch_norm(Model& model, std::string_view name, ValueId x, BatchNorm options = {});

ValueId relu(Model& model, std::string_view name, ValueId x);

struct Pool {
  Kernel kernel = 2;
  std::int64_t stride = 2;
  Padding padding = valid;
};
ValueId max_pool(Model& model, std::string_view name, ValueId x, Pool options);
ValueId avg_pool(Model& model, std::string_view name, ValueId x, Pool options);
/// To `side` x `side`, whatever the size; of equal windows where the size divides.
ValueId adaptive_avg_pool(Model& model, std::string_view name, ValueId x, std::int64_t side);

ValueId concat(Model& model, std::string_view name, std::span<const ValueId> parts);
ValueId add(Model& model, std::string_view name, ValueId a, ValueId b);
ValueId dropout(Model& model, std::string_view name, ValueId x);
ValueId flatten(Model& model, std::string_view name, ValueId x);
ValueId dense(Model& model, std::string_view name, ValueId x, std::int64_t units, bool bias = true);
/// Class probabilities, which nobody reads: only TensorFlow's graphs have them.
void predict(Model& model, std::string_view name, ValueId logits);
/// [N, classes] against [N] labels.
void loss(Model& model, std::string_view name, ValueId logits, ValueId labels);

}  // namespace baechi
