/// Costs from a calibration: measured op times plus the gap after each op, measured transfer times
/// plus latency.
#pragma once
#include <memory>
#include <string>

#include "sim/cluster/calibration.h"
#include "sim/cluster/cost_model.h"

namespace baechi {

/// The measured kernel that stands in for an op's work.
struct StandIn {
  std::string_view kind;      ///< "gemm", "cublas", "ew" (elementwise), or "" if there is no work
  std::int64_t argument = 0;  ///< n of a product, bytes of ew, as validate/FORMATS.md has them
  double amount = 0.0;        ///< the same in flops (products) or bytes (ew)
};
/// A gemm of as many flops, or an elementwise pass over as many bytes: whichever takes an H100
/// longer (989 TFLOP/s, 3.35 TB/s). Sizes are rounded to sizes that run: gemm to multiples of 16,
/// bytes to multiples of 32.
StandIn stand_in(OpWork work);

/// The same by measurements: the product (by cuBLAS if measured) or the pass over memory, whichever
/// takes longer. A part of a GPU has its ridge elsewhere than a whole H100. If one of the two was
/// not measured, the same as stand_in(work).
StandIn stand_in(OpWork work, const Calibration& calibration);

/// Selects a part of a calibration.
struct CalibrationUse {
  std::string mode = "graph";
  std::string way = "link";
  Effects effects{};
};

class CalibratedCosts final : public CostModel {
 public:
  /// Throws InputError if the calibration lacks the mode or the way.
  CalibratedCosts(std::unique_ptr<CostModel> plain, const OpGraph& graph,
                  std::shared_ptr<const Calibration> calibration, const CalibrationUse& use);

  /// The stand-in's time if the op's work is known and the stand-in was measured, else the plain
  /// time; plus the gap to the next op.
  Duration compute(OpId op, DeviceId device) const override;
  /// Latency plus moving; way host moves out and in again. Way link takes at least the plain time.
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override {
    return plain_->collective(c, devices);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return plain_->same_compute(a, b); }
  bool uniform_transfers() const override { return plain_->uniform_transfers(); }

  /// One line per kind of op or transfer that has sizes outside the measured range; "" if none has.
  std::string outside() const;

 private:
  const FittedTime* time_of(OpId op, StandIn& work) const;
  double moving(TensorId tensor) const;

  std::unique_ptr<CostModel> plain_;
  const OpGraph& graph_;
  std::shared_ptr<const Calibration> calibration_;
  Effects effects_;
  const Calibration::Mode* mode_ = nullptr;
  std::vector<const Calibration::Transfer*> hops_;  // one; two for way host
};

}  // namespace baechi
