#include "placers/registry.h"

#include <algorithm>

namespace baechi {

std::unique_ptr<Placer> make_m_etf(Options&);
std::unique_ptr<Placer> make_single(Options&);

std::span<const PlacerEntry> placers() {
  static constexpr PlacerEntry table[] = {
      {"m_etf", "earliest task first, within memory", "Baechi, SoCC'20, section 2.2.2", make_m_etf},
      {"single", "every op on one device", "the baseline of every paper", make_single},
  };
  return table;
}

std::unique_ptr<Placer> make_placer(std::string_view name, Options options,
                                    const std::string& where) {
  const auto it = std::ranges::find(placers(), name, &PlacerEntry::name);
  if (it == placers().end()) {
    std::vector<std::string> known;
    for (const PlacerEntry& entry : placers()) known.emplace_back(entry.name);
    throw InputError(fmt::format("{}no placer '{}'{} (placers: {})", at(where), name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
  }
  auto placer = it->make(options);
  options.finish();
  return placer;
}

}  // namespace baechi
