#include "sim/accelerator/accelerator.h"

#include <fmt/format.h>

namespace baechi {

std::string to_text(const Accelerator& a) {
  return fmt::format("{} x {}x{} + {} x {} + {}", a.tensor_cores, a.width, a.depth, a.vector_cores,
                     a.width, to_text(a.buffer));
}

std::optional<double> AreaTable::area(const Accelerator& a) const {
  const auto t = tensor_core.find(a.width * a.depth);
  const auto v = vector_core.find(a.width);
  const auto b = buffer.find(a.buffer);
  if (t == tensor_core.end() || v == vector_core.end() || b == buffer.end()) return std::nullopt;
  return static_cast<double>(a.tensor_cores) * t->second +
         static_cast<double>(a.vector_cores) * v->second + b->second;
}

}  // namespace baechi
