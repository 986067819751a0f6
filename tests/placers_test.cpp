#include <doctest/doctest.h>

#include "placers/registry.h"
#include "sim/engine/simulation.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
