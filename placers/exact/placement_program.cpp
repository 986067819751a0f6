#include "placers/exact/placement_program.h"

#include <cmath>

namespace baechi::exact {
namespace {

/// The heaviest bundles of `heavy`, as few as exceed `memory` together, and all bundles that are no
/// lighter than any of these: no device takes more than `most` of them.
struct Cover {
  std::vector<BundleId> bundles;
  std::size_t most = 0;
};

Cover cover_of(std::vector<BundleId> heavy, Bytes memory, const Bundles& bundles) {
  const auto weight = [&](BundleId b) { return bundles.weights(b); };
  std::ranges::stable_sort(heavy, std::greater{}, weight);
  Cover cover;
  Bytes sum{};
  for (std::size_t i = 0; sum <= memory; ++i) {
    cover.bundles.push_back(heavy[i]);
    sum += weight(heavy[i]);
  }
  cover.most = cover.bundles.size() - 1;
  const Bytes heaviest = weight(cover.bundles.front());
  for (const BundleId b : bundles.bundles())
    if (weight(b) >= heaviest && std::ranges::find(cover.bundles, b) == cover.bundles.end())
      cover.bundles.push_back(b);
  return cover;
}

}  // namespace

IdVector<BundleId, DeviceId> PlacementProgram::split(const std::vector<double>& solution) const {
  IdVector<BundleId, DeviceId> device;
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

bool PlacementProgram::forbid_overloads(const IdVector<BundleId, DeviceId>& split,
                                        const Bundles& bundles,
                                        const std::vector<DeviceClass>& classes) {
  bool any = false;
  for (const DeviceClass& cls : classes) {
    for (const DeviceId d : cls.devices) {
      std::vector<BundleId> here;
      Bytes sum{};
      for (const BundleId b : bundles.bundles()) {
        if (split[b] != d) continue;
        here.push_back(b);
        sum += bundles.weights(b);
      }
      if (sum <= cls.memory) continue;
      any = true;
      const Cover cover = cover_of(std::move(here), cls.memory, bundles);
      for (const DeviceId equal : cls.devices) {
        std::vector<solver::LinearProgram::Term> row;
        for (const BundleId b : cover.bundles)
          for (const std::uint32_t column : on[b][index(equal)]) row.push_back({column, 1.0});
        program.relaxation.add_row(-solver::LinearProgram::infinity, row,
                                   static_cast<double>(cover.most));
      }
    }
  }
  return any;
}

}  // namespace baechi::exact
