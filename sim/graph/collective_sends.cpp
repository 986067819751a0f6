#include "sim/graph/collective_sends.h"

namespace baechi {
namespace {

/// The p-th of n parts.
Bytes part(Bytes bytes, std::size_t p, std::size_t n) {
  const auto parts = static_cast<std::int64_t>(n);
  return {bytes.count / parts + (static_cast<std::int64_t>(p) < bytes.count % parts ? 1 : 0)};
}

}  // namespace

void for_each_send(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                   const std::function<void(const CollectiveSend&)>& send) {
  const std::size_t n = ranks;
  if (n < 2) return;
  const auto ring = [&](std::size_t steps, std::size_t summed) {
    for (std::size_t k = 0; k < steps; ++k)
      for (std::size_t i = 0; i < n; ++i)
        send({.from = i,
              .after = k,
              .to = (i + 1) % n,
              .receipt = k + 1,
              .size = part(bytes, (i + n - k % n) % n, n),
              .is_summed = k < summed});
  };
  switch (kind) {
    case CollectiveKind::all_reduce:
      return ring(2 * (n - 1), n - 1);
    case CollectiveKind::reduce_scatter:
      return ring(n - 1, n - 1);
    case CollectiveKind::all_gather:
      return ring(n - 1, 0);
    case CollectiveKind::all_to_all:
      for (std::size_t k = 0; k + 1 < n; ++k)
        for (std::size_t i = 0; i < n; ++i) {
          const std::size_t to = (i + k + 1) % n;
          send({.from = i, .after = k, .to = to, .receipt = k + 1, .size = part(bytes, to, n)});
        }
      return;
    case CollectiveKind::broadcast:
      for (std::size_t p = 0; p < n; ++p)
        for (std::size_t i = 0; i + 1 < n; ++i)
          send({.from = i,
                .after = i == 0 ? 0 : p + 1,
                .to = i + 1,
                .receipt = p + 1,
                .size = part(bytes, p, n)});
      return;
    case CollectiveKind::send_recv:
      return send({.from = 0, .after = 0, .to = 1, .receipt = 1, .size = bytes});
  }
}

}  // namespace baechi
