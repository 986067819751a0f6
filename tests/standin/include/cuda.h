/// The stand-in's declarations of the CUDA driver API that the replay harness uses.
#pragma once

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_NOT_SUPPORTED = 801 };
enum CUdevResourceType { CU_DEV_RESOURCE_TYPE_INVALID = 0, CU_DEV_RESOURCE_TYPE_SM = 1 };

using CUdevice = int;
using CUcontext = struct CUctx_st*;
using CUgreenCtx = struct CUgreenCtx_st*;
using CUdevResourceDesc = struct CUdevResourceDesc_st*;
using CUstream = struct CUstream_st*;

struct CUdevSmResource {
  unsigned smCount, minSmPartitionSize, smCoscheduledAlignment;
};
struct CUdevResource {
  CUdevResourceType type;
  CUdevSmResource sm;
  int group;  ///< only in the stand-in: index of the group
};

inline constexpr unsigned CU_GREEN_CTX_DEFAULT_STREAM = 1, CU_STREAM_NON_BLOCKING = 1;
