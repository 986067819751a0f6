/// Costs as a calibration measured them, as far as a cost model can say: each op with the gap that
/// follows it, each transfer with its latency.
#pragma once
#include <memory>
#include <string>

#include "sim/cluster/calibration.h"
#include "sim/cluster/cost_model.h"

namespace baechi {

/// The measured kernel that stands for some work.
struct StandIn {
  std::string_view kind;      ///< "gemm", "ew", or "" of no work
  std::int64_t argument = 0;  ///< n of a gemm, bytes of ew, as validate/FORMATS.md has them
  double amount = 0.0;        ///< what that is in flops or bytes
};
/// A product of as many flops, or a pass over as many bytes where that takes an H100's memory
/// (3.35 TB/s) longer than the product takes its tensor cores (989 TFLOP/s). The nearest that can
/// be run: sizes are multiples of 16, bytes of 32.
StandIn stand_in(OpWork work);

/// Which part of a calibration is meant.
struct CalibrationUse {
  std::string mode = "graph";
  std::string way = "link";
  Effects effects{};
};

class CalibratedCosts final : public CostModel {
 public:
  /// Throws InputError if the calibration knows nothing of the mode or way.
  CalibratedCosts(std::unique_ptr<CostModel> plain, const OpGraph& graph,
                  std::shared_ptr<const Calibration> calibration, const CalibrationUse& use);

  /// The stand-in's time where the op's work is stated and its kind was measured, else the plain
  /// one; and the gap to the next.
  Duration compute(OpId op, DeviceId device) const override;
  /// Latency and the moving; of way host out and in again. Paced by the plain time, in way link.
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  bool same_compute(DeviceId a, DeviceId b) const override { return plain_->same_compute(a, b); }
  bool uniform_transfers() const override { return plain_->uniform_transfers(); }

  /// One line per kind of op or transfer with sizes outside of what was measured; "" if none is.
  std::string outside() const;

 private:
  const FittedTime* time_of(OpId op, StandIn& work) const;
  double moving(TensorId tensor) const;

  std::unique_ptr<CostModel> plain_;
  const OpGraph& graph_;
  std::shared_ptr<const Calibration> calibration_;
  Effects effects_;
  const Calibration::Mode* mode_ = nullptr;
  std::vector<const Calibration::Transfer*> hops_;  // one, or both of way host
};

}  // namespace baechi
