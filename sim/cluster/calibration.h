/// Measurements of a machine, with which simulated steps are steps of the machine.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/units.h"

namespace baechi {

/// A fitted number and its 95 % interval.
struct Estimate {
  double value = 0.0, low = 0.0, high = 0.0;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};
inline Estimate exactly(double value) {
  return {value, value, value};
}

/// A time as a function of an amount (bytes, or flops): a line, or where that fits badly a table.
struct FittedTime {
  Estimate fixed_ns{};
  Estimate ns_per_unit{};
  double least = 0.0, most = 0.0;                  ///< the amounts it was fitted to
  double worst_residual = 0.0;                     ///< largest, relative, of the line
  std::vector<std::pair<double, double>> table{};  ///< (amount, ns), ascending; empty: the line

  /// In a table: on a straight line of the logarithms between two entries, the first below them, in
  /// proportion to the amount above.
  double operator()(double amount) const;
  bool covers(double amount) const { return amount >= least && amount <= most; }
  friend bool operator==(const FittedTime&, const FittedTime&) = default;
};

struct Calibration {
  static constexpr std::string_view schema = "baechi-calibration 1";

  /// Work is submitted as one graph, or task by task into streams.
  struct Mode {
    std::string mode{};
    Estimate same_ns{};    ///< end of an op to the start of the next in its queue
    Estimate cross_ns{};   ///< the same between queues
    Estimate submit_ns{};  ///< host time per task (stream), per step (graph)
    Estimate fan_in_ns{};  ///< as cross_ns, of an op that waits for two queues or more; 0: as one
    /// same_ns behind an op of a kind, where that was measured; else as behind a spin.
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
    bool paced = false;       ///< it takes as long as it is told, if `time` is not longer: way link
    Estimate latency_ns{};    ///< besides the moving
    Estimate occupancy_ns{};  ///< of its queue besides the moving: when the next one can follow
    FittedTime time{};        ///< of the moving; its fixed_ns is 0
    bool shared = false;      ///< all devices' transfers go one after the other
    double contention = 1.0;  ///< what it takes when all devices do it at once, over what one takes
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };
  struct OpTime {
    std::string kind{};  ///< body of an op: "gemm" (flops), "ew" (bytes), "cublas" (flops)
    std::string mode{};  ///< in which it takes that; empty: in every mode
    FittedTime time{};
    double left_out_error = 0.0;  ///< worst relative error at a size that was left out of the fit
    friend bool operator==(const OpTime&, const OpTime&) = default;
  };
  struct Interference {
    std::string op{}, neighbour{};  ///< kinds of bodies
    Estimate per_neighbour{};       ///< slower by this much for each device that runs a neighbour
    friend bool operator==(const Interference&, const Interference&) = default;
  };
  /// Ops that run at once share the bandwidth of the memory. An undisturbed op of a kind moves
  /// `bytes_per_ns`; for ew, its bytes over its time. If all together want more than `capacity`,
  /// times grow by `sensitivity` * (sum of bytes_per_ns / capacity - 1).
  struct Bandwidth {
    struct Demand {
      std::string kind{};
      double bytes_per_ns = 0.0, sensitivity = 0.0;
      friend bool operator==(const Demand&, const Demand&) = default;
    };
    double capacity = 0.0;  ///< bytes per ns; 0: not known, and Interference counts
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
  Bytes granule{};  ///< a memory budget is kept to within this

  friend bool operator==(const Calibration&, const Calibration&) = default;

  const Mode* find_mode(std::string_view mode) const;  ///< null if it was not measured
  const Transfer* find_transfer(std::string_view mode, std::string_view way,
                                std::string_view direction) const;
  /// The time in the mode or, if there is none of its own, the first of the kind.
  const OpTime* find_op(std::string_view kind, std::string_view mode = {}) const;
};

/// Effects of a calibration, each to be switched off.
struct Effects {
  bool op_gap = true;     ///< between ops of one queue
  bool cross_gap = true;  ///< across queues
  bool latency = true;    ///< of transfers
  bool occupancy = true;  ///< off: a transfer holds its queue for its whole latency
  bool sharing = true;    ///< of channels by all devices
  bool interference = true;
  bool costs = true;  ///< op and transfer times as measured, not as the plan says

  static Effects bare();  ///< no overheads: costs alone
};
struct EffectName {
  std::string_view name, help;
  bool Effects::* on;
};
const std::vector<EffectName>& effect_names();

}  // namespace baechi
