/// Generated models as the tests want them: with times, and held against what all models keep.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "sim/engine/simulation.h"

namespace baechi::testing {

using Settings = std::map<std::string, std::string>;

/// Throws InputError on bad settings.
OpGraph generate(std::string_view name, const Settings& settings);

/// Times are those of 5 10^12 operations and 4 10^11 bytes per second with 5 us per kernel, about a
/// GPU of 2018: they are there for the order of things.
OpGraph timed(const OpGraph& graph);

/// The step on one device with memory without end.
StepResult on_one_device(const OpGraph& graph);

/// At module level, gradients are as many as parameters.
std::int64_t parameters(const OpGraph& module_level);

/// Checks one model with batches of 2 and 4. `sparse`: it updates rows of a table, the more the
/// larger the batch.
void check_contract(const OpGraph& two, const OpGraph& four, bool sparse = false);

}  // namespace baechi::testing
