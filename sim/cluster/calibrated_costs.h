/// Costs from a calibration: measured op times plus the gap between ops, measured transfer times
/// plus latency.
#pragma once
#include <memory>
#include <string>

#include "sim/cluster/calibration.h"
#include "sim/cluster/cost_model.h"

namespace baechi {

/// The measured kernel whose time replaces that of an op's work.
struct StandIn {
  std::string_view kind;      ///< "gemm", "cublas", "ew" (elementwise), or "" if there is no work
  std::int64_t argument = 0;  ///< n of a GEMM, bytes of ew (validate/FORMATS.md)
  double amount = 0.0;        ///< the same in flops (GEMM) or bytes (ew)
};
/// A GEMM of as many flops, or an elementwise kernel of as many bytes: whichever takes longer on an
/// H100 (989 TFLOP/s, 3.35 TB/s). n is rounded to a multiple of 16, bytes to one of 32.
StandIn stand_in(OpWork work);

/// As above, but whichever takes longer by the calibration: the GEMM (by cuBLAS if measured) or the
/// elementwise kernel, since a part of a GPU has another ridge point than a whole H100. If one of
/// the two was not measured, stand_in(work).
StandIn stand_in(OpWork work, const Calibration& calibration);

/// The part of a calibration that applies.
struct CalibrationUse {
  std::string mode = "graph";
  std::string way = "link";
  Effects effects{};
};

class CalibratedCosts final : public CostModel {
 public:
  /// Throws InputError if the calibration lacks the mode, or transfers of that way.
  CalibratedCosts(std::unique_ptr<CostModel> plain, const OpGraph& graph,
                  std::shared_ptr<const Calibration> calibration, const CalibrationUse& use);

  /// The stand-in's time if the op's work is known and the stand-in was measured, else the time of
  /// `plain`; plus the gap to the next op.
  Duration compute(OpId op, DeviceId device) const override;
  /// Latency plus copy time; way "host" copies to the host and back, way "link" takes at least the
  /// time of `plain`.
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override {
    return plain_->collective(c, devices);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return plain_->same_compute(a, b); }
  bool uniform_transfers() const override { return plain_->uniform_transfers(); }

  /// One line per kind of op, and for transfers, with sizes outside the measured range; or "".
  std::string outside() const;

 private:
  const FittedTime* time_of(OpId op, StandIn& work) const;
  double moving(TensorId tensor) const;

  std::unique_ptr<CostModel> plain_;
  const OpGraph& graph_;
  std::shared_ptr<const Calibration> calibration_;
  Effects effects_;
  const Calibration::Mode* mode_ = nullptr;
  std::vector<const Calibration::Transfer*> hops_;  // one; two for way "host"
};

}  // namespace baechi
