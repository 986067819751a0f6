/// What tests begin with.
#pragma once
#include <doctest/doctest.h>

namespace baechi::testing {}
using namespace baechi;
using namespace baechi::testing;
