/// Measured op times, transfer times and overheads of one machine, and costs by them: op times plus
/// the gap between ops, transfer times plus latency.
#pragma once
#include "sim/cluster/cost_model.h"

namespace baechi {

/// A fitted number and its 95 % interval.
struct Estimate {
  double value = 0.0, low = 0.0, high = 0.0;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};
inline Estimate exactly(double value) { return {value, value, value}; }

/// A time as a function of an amount (bytes, or flops): a line, or a table where a line fits badly.
struct FittedTime {
  Estimate fixed_ns{};
  Estimate ns_per_unit{};
  double least = 0.0, most = 0.0;                  ///< range of the fitted amounts
  double worst_residual = 0.0;                     ///< largest relative residual of the line
  std::vector<std::pair<double, double>> table{};  ///< (amount, ns), ascending; empty: the line

  /// A table is interpolated log-log; below it the first entry, above it in proportion to `amount`.
  double operator()(double amount) const;
  bool covers(double amount) const { return amount >= least && amount <= most; }
  friend bool operator==(const FittedTime&, const FittedTime&) = default;
};

struct Calibration {
  static constexpr std::string_view schema = "baechi-calibration 1";

  /// How work is submitted: as one graph, or task by task into streams.
  struct Mode {
    std::string mode{};
    Estimate same_ns{};    ///< end of an op to the start of the next in its queue
    Estimate cross_ns{};   ///< the same between queues
    Estimate submit_ns{};  ///< host time per task (stream), per step (graph)
    Estimate fan_in_ns{};  ///< cross_ns of an op that waits for two queues or more; 0: as for one
    /// same_ns after ops of one kind, where measured; other kinds: same_ns after a spin.
    struct After {
      std::string kind{};
      Estimate same_ns{};
      friend bool operator==(const After&, const After&) = default;
    };
    std::vector<After> after{};
    friend bool operator==(const Mode&, const Mode&) = default;
  };
  /// From the end of the producer to the start of the reader, both hops between queues included.
  struct Transfer {
    std::string mode{}, way{}, direction{};  ///< direction: "d2h" or "h2d" of way host, else empty
    bool paced = false;       ///< way "link": takes the plan's time, unless `time` is longer
    Estimate latency_ns{};    ///< in addition to `time`
    Estimate occupancy_ns{};  ///< how long it holds its queue, in addition to `time`
    FittedTime time{};        ///< of the copy; its fixed_ns is 0
    bool shared = false;      ///< transfers of all devices are serialised
    Estimate
        channel_ns{};  ///< if shared: how long one holds what they share, in addition to `time`
    bool in_order =
        false;  ///< if shared: in the order of the plan, also where a later one is ready
    double contention = 1.0;  ///< slowdown when all devices transfer at once
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };
  struct OpTime {
    std::string kind{};  ///< kernel of an op: "gemm" (flops), "ew" (bytes), "cublas" (flops)
    std::string mode{};  ///< mode for which this holds; empty: every mode
    FittedTime time{};
    double left_out_error = 0.0;  ///< leave-one-out error: worst relative error at a size left out
    friend bool operator==(const OpTime&, const OpTime&) = default;
  };
  struct Interference {
    std::string op{}, neighbour{};  ///< kinds of kernels
    Estimate per_neighbour{};       ///< relative slowdown per device that runs a neighbour
    friend bool operator==(const Interference&, const Interference&) = default;
  };
  /// Concurrent ops share the memory bandwidth. An op running alone moves `bytes_per_ns` (for ew:
  /// its bytes over its time). If the sum of demands exceeds `capacity`, times grow by
  /// `sensitivity` * (sum / capacity - 1).
  struct Bandwidth {
    struct Demand {
      std::string kind{};
      double bytes_per_ns = 0.0, sensitivity = 0.0;
      friend bool operator==(const Demand&, const Demand&) = default;
    };
    double capacity = 0.0;  ///< bytes per ns; 0: unknown, Interference is used instead
    std::vector<Demand> demands{};
    friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
  };
  struct Partition {
    int compute = 0, link = 0;  ///< multiprocessors
    friend bool operator==(const Partition&, const Partition&) = default;
  };

  std::string gpu{}, driver{}, cuda{}, harness{}, date{};
  int sms = 0;
  double timer_tick_ns = 0.0;
  std::vector<Partition> partitions{};  ///< of devices 0, 1, ...
  std::vector<Mode> modes{};
  std::vector<Transfer> transfers{};
  std::vector<OpTime> ops{};
  std::vector<Interference> interference{};
  Bandwidth bandwidth{};

  friend bool operator==(const Calibration&, const Calibration&) = default;

  const Mode* find_mode(std::string_view mode) const;  ///< null if it was not measured
  const Transfer* find_transfer(std::string_view mode, std::string_view way,
                                std::string_view direction) const;
  /// The time in the mode; if that mode has none, the first time of the kind.
  const OpTime* find_op(std::string_view kind, std::string_view mode = {}) const;
};

/// Effects of a calibration, each of which can be switched off.
struct Effects {
  bool op_gap = true;     ///< gap between ops of one queue
  bool cross_gap = true;  ///< gap across queues
  bool latency = true;    ///< latency of transfers
  bool occupancy = true;  ///< if off, a transfer holds its queue for its whole latency
  bool sharing = true;    ///< channels shared by all devices
  bool interference = true;
  bool costs = true;      ///< op and transfer times as measured, not as in the plan
  static Effects bare();  ///< only `costs`, no overheads
};
struct EffectName {
  std::string_view name, help;
  bool Effects::* on;
};
const std::vector<EffectName>& effect_names();

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
