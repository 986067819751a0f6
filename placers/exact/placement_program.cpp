#include "placers/exact/placement_program.h"

#include <cmath>

namespace baechi::exact {
namespace {

/// The heaviest blocks of `heavy`, as few as exceed `memory` together, and all blocks that are no
/// lighter than any of these: no device takes more than `most` of them.
struct Cover {
  std::vector<BlockId> blocks;
  std::size_t most = 0;
};

Cover cover_of(std::vector<BlockId> heavy, Bytes memory, const Blocks& blocks) {
  const auto weight = [&](BlockId b) { return blocks.weights(b); };
  std::ranges::stable_sort(heavy, std::greater{}, weight);
  Cover cover;
  Bytes sum{};
  for (std::size_t i = 0; sum <= memory; ++i) {
    cover.blocks.push_back(heavy[i]);
    sum += weight(heavy[i]);
  }
  cover.most = cover.blocks.size() - 1;
  const Bytes heaviest = weight(cover.blocks.front());
  for (const BlockId b : blocks.blocks())
    if (weight(b) >= heaviest && std::ranges::find(cover.blocks, b) == cover.blocks.end())
      cover.blocks.push_back(b);
  return cover;
}

}  // namespace

IdVector<BlockId, DeviceId> PlacementProgram::split(const std::vector<double>& solution) const {
  IdVector<BlockId, DeviceId> device;
  for (const auto& columns_of : on) {
    const auto best = std::ranges::max_element(columns_of, {}, [&](const auto& columns) {
      double sum = 0.0;
      for (const std::uint32_t column : columns) sum += solution[column];
      return sum;
    });
    device.push_back(static_cast<DeviceId>(best - columns_of.begin()));
  }
  return device;
}

Duration PlacementProgram::time(double objective) const {
  constexpr double tolerance = 1e-4;  // ten millionths of the largest value
  return Duration{static_cast<std::int64_t>(std::ceil((objective - extra - tolerance) / unit))};
}

bool PlacementProgram::forbid_overloads(const IdVector<BlockId, DeviceId>& split,
                                        const Blocks& blocks,
                                        const std::vector<DeviceClass>& classes) {
  bool any = false;
  for (const DeviceClass& cls : classes) {
    for (const DeviceId d : cls.devices) {
      std::vector<BlockId> here;
      Bytes sum{};
      for (const BlockId b : blocks.blocks()) {
        if (split[b] != d) continue;
        here.push_back(b);
        sum += blocks.weights(b);
      }
      if (sum <= cls.memory) continue;
      any = true;
      const Cover cover = cover_of(std::move(here), cls.memory, blocks);
      for (const DeviceId equal : cls.devices) {
        std::vector<solver::LinearProgram::Term> row;
        for (const BlockId b : cover.blocks)
          for (const std::uint32_t column : on[b][index(equal)]) row.push_back({column, 1.0});
        program.relaxation.add_row(-solver::LinearProgram::infinity, row,
                                   static_cast<double>(cover.most));
      }
    }
  }
  return any;
}

}  // namespace baechi::exact
