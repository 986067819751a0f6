/// Layers of convolutional networks. Each function adds a layer to the model and returns its
/// output.
#pragma once

#include "sim/options.h"
#include "traces/generate/model.h"

namespace baechi::generate {

std::int64_t read_classes(Options& options);

/// Pixels that are added on each side of an image. In TensorFlow's words: `valid` adds none, `same`
/// adds as many as give an output of ceil(size / stride).
struct Padding {
  std::int64_t pixels = 0;
  bool keeps_size = false;
};
inline constexpr Padding valid{}, same{.keeps_size = true};
constexpr Padding padded(std::int64_t pixels) { return {.pixels = pixels}; }

/// Height and width in pixels; one number means both.
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
  std::int64_t groups = 1;  ///< each group of filters sees one group of channels
};
ValueId conv2d(Model& model, std::string_view name, ValueId x, const Conv2d& options);

struct BatchNorm {
  bool scale = true;       ///< has a gamma
  bool frozen = false;     ///< normalises by its moving statistics
  bool of_images = false;  ///< PyTorch's InstanceNorm2d: of each image, without variables
};
ValueId batch_norm(Model& model, std::string_view name, ValueId x, BatchNorm options = {});

ValueId relu(Model& model, std::string_view name, ValueId x);
ValueId sigmoid(Model& model, std::string_view name, ValueId x);
/// Image x [N, C, H, W] times `factors` [N, C].
ValueId scale_channels(Model& model, std::string_view name, ValueId x, ValueId factors);

struct Pool {
  Kernel kernel = 2;
  std::int64_t stride = 2;
  Padding padding = valid;
};
ValueId max_pool(Model& model, std::string_view name, ValueId x, Pool options);
ValueId avg_pool(Model& model, std::string_view name, ValueId x, Pool options);
/// Pools an image of any size to `side` x `side`. All windows are equal if `side` divides the size.
ValueId adaptive_avg_pool(Model& model, std::string_view name, ValueId x, std::int64_t side);

/// Each pixel four times.
ValueId upsample(Model& model, std::string_view name, ValueId x);
ValueId concat(Model& model, std::string_view name, std::span<const ValueId> parts);
/// `scaled`: a kernel multiplies b by a number first, and its gradient.
ValueId add(Model& model, std::string_view name, ValueId a, ValueId b, bool scaled = false);
ValueId dropout(Model& model, std::string_view name, ValueId x);
ValueId flatten(Model& model, std::string_view name, ValueId x);
/// `multiplied`: columns of its GEMM, which may also compute later layers of the same input; 0: the
/// GEMM of an earlier layer has computed this one.
ValueId dense(Model& model, std::string_view name, ValueId x, std::int64_t units, bool bias = true,
              std::optional<std::int64_t> multiplied = std::nullopt);
/// Class probabilities that no layer reads. Only level tf1 has an op for them.
void predict(Model& model, std::string_view name, ValueId logits);
/// Mean cross-entropy of logits [N, classes] and labels [N].
enum class LossKernels {
  fused,     ///< the logits are read and the probabilities written once in each pass
  separate,  ///< a kernel for each operation
  torch,     ///< PyTorch's cross_entropy of logits that are cast to 32 bits
};
/// `metrics`: cross-entropies like `torch` that are computed besides, without a backward pass.
void loss(Model& model, std::string_view name, ValueId logits, ValueId labels,
          LossKernels kernels = LossKernels::fused, std::int64_t metrics = 0);

}  // namespace baechi::generate
