/// What tests begin with: doctest, small graphs, folders for files, and what the build is.
#pragma once

#include "tests/graph_text.h"
#include "tests/message.h"
#include "tests/shared_data.h"
#include "tests/small_graphs.h"
#include "tests/temporary_folder.h"
#include "tests/thorough.h"

using namespace baechi;
using namespace baechi::testing;
