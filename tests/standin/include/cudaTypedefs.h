#pragma once
#include <cuda.h>

using PFN_cuDeviceGetDevResource_v12040 = CUresult (*)(CUdevice, CUdevResource*, CUdevResourceType);
using PFN_cuDevSmResourceSplitByCount_v12040 = CUresult (*)(CUdevResource*, unsigned*,
                                                            const CUdevResource*, CUdevResource*,
                                                            unsigned, unsigned);
using PFN_cuDevResourceGenerateDesc_v12040 = CUresult (*)(CUdevResourceDesc*, CUdevResource*,
                                                          unsigned);
using PFN_cuGreenCtxCreate_v12040 = CUresult (*)(CUgreenCtx*, CUdevResourceDesc, CUdevice,
                                                 unsigned);
using PFN_cuGreenCtxGetDevResource_v12040 = CUresult (*)(CUgreenCtx, CUdevResource*,
                                                         CUdevResourceType);
using PFN_cuGreenCtxStreamCreate_v12050 = CUresult (*)(CUstream*, CUgreenCtx, unsigned, int);
using PFN_cuCtxFromGreenCtx_v12040 = CUresult (*)(CUcontext*, CUgreenCtx);
using PFN_cuCtxPushCurrent_v4000 = CUresult (*)(CUcontext);
using PFN_cuCtxPopCurrent_v4000 = CUresult (*)(CUcontext*);
