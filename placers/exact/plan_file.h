/// Reads Piper's inputs: graphs with times and sizes per degree of tensor parallelism, in modes.
#pragma once
#include <string>

#include "placers/exact/plan.h"

namespace baechi {
class TextFile;
}

namespace baechi::exact {

/// The format of the repository msr-fiddle/piper, as traces/import/piper.cpp describes it, all
/// degrees and modes of it. Times count as seconds, whatever they are. Throws InputError with
/// path:line:column and all mistakes at once: a value that is missing, negative or of another type;
/// an id, edge or mode that is there twice; an end that is no node; a cycle; traffic of an edge
/// that the node does not have, or no traffic of one it has.
PlanInput read_plan_input(TextFile& file);
PlanInput read_plan_input(const std::string& path);

}  // namespace baechi::exact
