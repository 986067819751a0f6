/// Generated models with times, and the properties that all models have.
#pragma once

#include "sim/engine/simulation.h"

namespace baechi::testing {

using Settings = std::map<std::string, std::string>;

/// Throws InputError on bad settings.
OpGraph generate(std::string_view name, const Settings& settings);

/// Roofline times of 5 10^12 flop/s, 4 10^11 B/s and 5 us per kernel, about a GPU of 2018.
OpGraph timed(const OpGraph& graph);

/// The step on one device with unlimited memory.
StepResult on_one_device(const OpGraph& graph);

/// Checks that at module level gradients have the size of the parameters.
std::int64_t parameters(const OpGraph& module_level);

/// Checks one model with batches of 2 and 4. `sparse`: it updates rows of a table, more with a
/// larger batch.
void check_contract(const OpGraph& two, const OpGraph& four, bool sparse = false);

}  // namespace baechi::testing
