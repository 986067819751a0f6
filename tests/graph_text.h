/// Makes small graphs from text.
#pragma once

#include "sim/graph/op_graph.h"

namespace baechi::testing {

/// Makes a graph from chains of ops and tensors, separated by ';':
///   "a10 -t100> b20; a -t> c30; b -50> c"
/// - "a10" is an op a that takes 10 ns, "f0=10" an op f0. Later mentions are just "a" and "f0".
/// - ",w7" and ",t5" behind it are bytes of weights and workspace, ",b" and ",u" the phases
///   backward and update: "d0=20,w7,b". ",b:f0" also says whose backward op it is, ",c:x" puts it
///   into a colocation group, ",k:x" is its kind, ",i:x" its module, ",l:x" its lane and ",@gpu7"
///   or ",@p1=7" its time on devices of type gpu. ",f9" and ",m8" are the FLOP and the bytes of
///   traffic of its kernel.
/// - "-t100>" is a tensor t of 100 bytes. A later "-t>" is another reader of tensor t.
/// - ",x:all_reduce/100/2" makes it a member of a collective of so many bytes and, if they are not
///   all simulated, ranks; members have the same text, "/100/2/a" and "/100/2/b" are two.
/// - "12k", "12M" and "12G" are numbers in thousands, millions and 10^9.
/// - "-50>" is a new tensor of 50 bytes without a name, "-&50>" one that takes no memory of its own
///   (a reference), "~>" a control edge; nobody reads "-50> .".
/// Op ids follow the order of first mention, which must be topological. Throws
/// std::invalid_argument on any other text.
OpGraph graph_of(std::string_view text);
/// Writes it as a trace of this name and batch.
void write_graph(const std::string& path, std::string_view text, const std::string& name = "",
                 std::int64_t batch = 0);

}  // namespace baechi::testing
