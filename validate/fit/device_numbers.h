/// The numbers of the device kinds that are fitted to measured steps, and what they say of a step.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/device_model.h"
#include "validate/fit/coordinate_search.h"

namespace baechi::validate {

/// Kinds of ops that have a share of the peak of their own; "" for all others.
inline constexpr std::array<std::string_view, 3> share_kinds{"", "Conv2d", "GroupedConv2d"};

inline constexpr std::size_t num_formats = all<Precision>().size();

/// A measured step, as the fit sees it.
struct FitCase {
  std::string gpu, framework;
  double measured = 0.0;                   ///< seconds
  std::array<double, num_formats> peak{};  ///< flops per second, by format
  double bandwidth = 0.0;

  struct Kernel {
    std::size_t share = 0;   ///< into share_kinds
    std::size_t format = 0;  ///< a Precision
    double flops = 0.0;
    double traffic = 0.0;

    auto operator<=>(const Kernel&) const = default;
  };
  std::vector<Kernel> kernels{};    ///< all that differ
  std::set<std::size_t> formats{};  ///< that they compute in
  /// A graph that runs `times` times: the kernels of each op in turn, as positions in `kernels`.
  struct Run {
    double times = 0.0;
    std::vector<std::uint32_t> kernels{};
    std::vector<std::uint32_t> ends{};  ///< of each op's kernels
  };
  std::vector<Run> runs{};

  /// Adds the ops of a graph that runs `times` times.
  void add(const OpGraph& graph, double times);
};

/// The numbers of all kinds, and their fit. Each is a product: of a number for the number format,
/// and of two deviations, of the GPU and of the framework, which are pulled towards 1. So a GPU
/// under a framework that nobody measured together has numbers, too.
///   share of the peak, by kind of op:   format x (GPU and format) x (framework and format)
///   flops at half of it:                format x framework
///   share of the bandwidth:             one x GPU x framework
///   launch of a kernel:                 one x framework
///   host time of an op:                 one x framework
///   host time of a pass:                one x framework
/// Shares above 1 count as 1.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(std::span<const FitCase> cases);

  /// Minimises the sum of |log(predicted / measured)| over the cases that count, with the pulls.
  void fit(const std::vector<bool>& use, int restarts);

  /// Seconds by the engine's recurrence, but for its rounding to nanoseconds: the host launches op
  /// after op, and an op begins when it is launched and the op before it has ended.
  double predicted(const FitCase& c) const;
  /// The kind of that GPU under that framework; its name, peaks and sizes are `sheet`'s.
  DeviceModel device(const DeviceModel& sheet, const std::string& gpu,
                     const std::string& framework) const;
  /// Numbers that are not where they started.
  std::size_t moved() const;

 private:
  /// Numbers to multiply; those that no case has are 1.
  using Product = std::vector<std::uint32_t>;
  struct Parts {
    struct Format {
      std::array<Product, share_kinds.size()> share;
      Product half_flops;
    };
    std::array<Format, num_formats> format;
    Product bandwidth, launch, host_op, host_step;
  };
  Parts parts(const std::string& gpu, const std::string& framework) const;
  Product product(std::initializer_list<std::string> names) const;
  double value(const Product& product, std::span<const double> x) const;
  double seconds(const FitCase& c, const Parts& p, std::span<const double> x) const;

  std::span<const FitCase> cases_;
  std::vector<Parts> parts_;                              // [cases]
  std::map<std::string, std::uint32_t, std::less<>> id_;  // of numbers
  SearchProblem problem_;
  std::vector<double> x_;  // logarithms
};

}  // namespace baechi::validate
