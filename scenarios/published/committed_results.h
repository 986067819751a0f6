/// The folders of papers, and the results that are committed there.
#pragma once
#include <string>
#include <vector>

#include "scenarios/published/paper.h"

namespace baechi {

/// The folders in `below` that have a paper.yaml, sorted: the one called `name`, or all if "".
/// Throws InputError if there is none.
std::vector<std::string> paper_folders(const std::string& below, const std::string& name);

/// The lines that only one of the committed results.csv and `result` has, with - and + in front;
/// "" if there are none. The order of the lines does not matter.
std::string difference_from_committed(const Paper& paper, const PaperResult& result);

}  // namespace baechi
