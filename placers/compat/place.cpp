#include "placers/compat/compat.h"
#include "placers/compat/etf.h"
#include "placers/compat/topo.h"
#include "sim/error.h"

namespace baechi {

CompatResult baechi_place(const BaechiGraph& graph, const IdVector<DeviceId, Bytes>& limits,
                          const CompatOptions& options, const IdVector<OpId, OpId>& favourites,
                          BaechiLog* log) {
  BAECHI_CHECK(!limits.empty(), "no devices");
  if (options.algorithm == CompatAlgorithm::m_topo) return compat_topo(graph, limits, options);
  const bool sct = options.algorithm == CompatAlgorithm::m_sct;
  BAECHI_CHECK(!sct || favourites.size() == graph.num_ops(), "favourites of {} ops for {}",
               favourites.size(), graph.num_ops());
  const IdVector<OpId, OpId> none;
  return CompatScheduler(graph, limits, options, sct ? favourites : none, log).run();
}

}  // namespace baechi
