/// A stand-in for CUDA in virtual time: enough of it for the whole replay harness to run without a
/// GPU.
///
/// Streams, events, captures, graphs and green contexts keep their rules; kernels are
/// lengths (small ones also compute, so that their check passes). Time passes by what is asked of
/// it. Its truth is the made-up GPU of tests/validate/made_up_gpu.h.
///
/// Environment:
///   STANDIN_FAULT=CALL:NTH:CODE[:sticky]  the NTH call of CALL returns CODE (0: every one);
///   sticky:
///                                         and everything after it. CODE kill: the process is
///                                         killed
///   STANDIN_CALLS=FILE                    at the end, a line per call: its name, how often
///   STANDIN_NO_GREEN=1                    green contexts are not supported
///   STANDIN_COPIES_AS_READY=1             copy engines of graphs serve who is ready first, not in
///   the
///                                         order of capture
///   STANDIN_NO_CAPTURE=1                  captures are refused
///   STANDIN_OWN_EVENTS=CODE               a green context's streams refuse events of another
///                                         context, with CODE
///   STANDIN_OVERLAP=1                     all parts have the same multiprocessors
///   STANDIN_SEEN_LESS=1                   a part reports one multiprocessor more than it has
///   STANDIN_CDP=1                         with cuBLAS (cublas.cpp) all parts share two more
///   STANDIN_CACHE=BYTES                   a pass over memory whose input is among the last so many
///                                         bytes that were touched takes half as long
#pragma once
#include <cuda.h>

#include <vector>

#include "tests/validate/made_up_gpu.h"
#include "validate/cuda/kernels.h"

namespace standin {

using baechi::validate::replay::SmSet;
using baechi::validate::replay::Stamp;

namespace truth = baechi::validate::made_up_gpu;
inline constexpr int num_sms = truth::multiprocessors, group_sms = 8, num_groups = 16;

extern std::int64_t host;  ///< the host's virtual time, ns

/// The result of this call by STANDIN_FAULT. Advances the time by 300 ns.
cudaError_t fault(const char* call);
/// Returns `error`, and sets it for cudaGetLastError().
cudaError_t fails(cudaError_t error);
bool asked(const char* variable);  ///< whether it is set in the environment

enum class Engine : std::int8_t { none = -1, to_host, to_device, between };

/// The cached memory that a kernel reads and writes.
struct Touched {
  const void* from = nullptr;
  const void* to = nullptr;
  std::size_t bytes = 0;  ///< of each
};

/// Runs a kernel, or a copy on an engine, of `ns`.
cudaError_t run(cudaStream_t stream, std::int64_t ns, Stamp* stamp, Engine engine = Engine::none,
                bool gate = false, const Touched& touched = {});

SmSet all_sms();
cudaStream_t new_stream(const SmSet& sms, CUgreenCtx context);
CUgreenCtx current_context();  ///< nullptr: the primary context
void* driver_function(const char* name);

}  // namespace standin
