/// The registry of cost models of collectives.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sim/cluster/collectives.h"
#include "sim/options.h"

namespace baechi {

using MakeCollectiveModel = std::shared_ptr<const CollectiveModel>(Options&);
struct CollectiveModelEntry {
  std::string_view name;     ///< as in a scenario: `cluster.collectives: {model: ring}`
  std::string_view summary;  ///< one line for `list collectives`
  std::string_view source;   ///< where the formula is from
  MakeCollectiveModel* make;
};
std::span<const CollectiveModelEntry> collective_models();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::shared_ptr<const CollectiveModel> make_collectives(std::string_view name, Options options,
                                                        const std::string& where = {});

/// The model that NAME or {model: NAME, option: value, ...} describes. Throws InputError as above.
std::shared_ptr<const CollectiveModel> make_collectives(const Options::Value& value);

}  // namespace baechi
