/// Cuts of a line of blocks into one stretch for each device used, by dynamic programming over
/// blocks and numbers of devices of each class: the best whatever the order of the devices.
/// Placements cut so, as people split models by hand.
#pragma once

#include "sim/problem/problem.h"

namespace baechi {

/// Up to so many ops `auto` searches under smaller limits of memory; beyond, the cuts do.
inline constexpr std::size_t climbed_ops = 80;

/// A line of blocks, with sums over the blocks before.
struct LineCosts {
  LineCosts(std::size_t num_blocks, std::size_t num_classes)
      : blocks(num_blocks),
        classes(num_classes),
        time((blocks + 1) * classes, 0),
        bytes(blocks + 1),
        working(blocks),
        cross(blocks + 2, 0) {}
  /// Adds the time of `v` and its persistent bytes to `block`.
  void add(const Problem& p, const std::vector<DeviceClass>& all, OpId v, std::size_t block);
  void sum_up();  ///< once all are added

  std::size_t blocks, classes;
  std::vector<std::int64_t> time;   ///< [blocks + 1, classes] ns
  std::vector<Bytes> bytes;         ///< [blocks + 1]
  std::vector<Bytes> working;       ///< [blocks] held in addition to `bytes`, at least
  std::vector<std::int64_t> cross;  ///< [blocks + 2] ns, transfers over the cut before the block
};

enum class LineGoal : std::uint8_t {
  sum,      ///< the least sum of times and transfers
  longest,  ///< the least time of the longest stretch
};

struct LineCuts {
  std::vector<DeviceId> of_block;  ///< [blocks]
  std::int64_t value = 0;
};

/// The best cuts for each number of devices, ascending; those that do not fit `limit` [devices] are
/// left out, and all if there are over 4,096 combinations of numbers of devices. Ties: the earlier
/// last cut, then the first class.
std::vector<LineCuts> cut_stretches(const LineCosts& costs, const std::vector<DeviceClass>& classes,
                                    const IdVector<DeviceId, Bytes>& limit, LineGoal goal);

/// Tries one placement: whether its step fits, and else the peaks of a step without limits.
class CutTrial {
 public:
  virtual ~CutTrial() = default;
  /// [num_devices] Nothing if the step fits.
  virtual IdVector<DeviceId, Bytes> excess_peaks(Placement placement) = 0;
};

/// Gives `trial` all placements of contiguous stretches, on devices in any order, if those have at
/// most `most` ops in total. Else those of the least sum of op and transfer times, by dynamic
/// programming over stretches and numbers of devices of each class, for three measures of memory;
/// where the step does not fit, again with less memory, in proportion to the peaks. If none fits,
/// on graphs of more than climbed_ops also for fixed limits, so that more memory does not lose what
/// fits. An op of another phase goes with its forward op.
void try_straight_cuts(const Problem& problem, std::size_t most, CutTrial& trial);

}  // namespace baechi
