/// An executor on this machine's own processor: each device is a thread on a core of its own.
#pragma once
#include <memory>

#include "validate/executor.h"

namespace baechi::validate {

/// An executor on this machine's cores: real hardware where no GPU is at hand, and no substitute
/// for one. A device's thread works on its compute queue and, a few microseconds at a time, on its
/// transfer queues. Tasks wait for each other by flags in memory. Bodies: spin by the clock, ew in
/// single precision over scratch memory that caches do not hold, gemm in single precision. A link
/// copies real bytes, no chunk earlier than the stated time of the transfer allows; ways host and
/// peer copy as fast as they can. Threads run with real-time priority where the system grants it,
/// so that others do not run in between. Budgets of memory are counted when tasks start, not
/// allocated.
class Processor final : public Executor {
 public:
  /// Throws InputError if the process may not run on as many cores.
  explicit Processor(int devices);
  ~Processor() override;
  Machine machine() const override;
  /// All tasks are known to the devices beforehand; failed: another mode than graph, several lanes,
  /// a body larger than scale() says or cublas, or no end within ten seconds.
  Outcome run(const ReplayPlan& plan) override;
  Bytes usable(Bytes budget) const override { return budget; }
  BenchmarkScale scale() const override;

 private:
  class Crew;
  std::unique_ptr<Crew> crew_;
};

}  // namespace baechi::validate
