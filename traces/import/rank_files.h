/// What importers share: the dtypes of frameworks, and the recordings of all ranks of one job.
#pragma once
#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

/// The format in which numbers of the type `word` are multiplied: "f8E4M3FN" of HLO,
/// "Tensor(c10::Half)" of PyTorch, "bfloat16" of ONNX. fp32 for all others.
Precision precision_of_type(std::string_view word);

/// Declares the option `ranks`, a pattern such as "trace_*.json" for names in the folder of `path`,
/// and returns the matching paths, ordered by the numbers in their names; `path` alone if the
/// option is not given. It is a mistake if the pattern does not match `path`.
std::vector<std::string> rank_files(const std::string& path, Options& options);

/// The files that match `pattern`, a path with * or ? in its last part, ordered by the numbers in
/// their names.
std::vector<std::string> numbered_files(const std::string& pattern);

}  // namespace baechi
