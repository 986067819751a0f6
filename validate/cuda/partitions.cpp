#include "validate/cuda/partitions.h"

#include <algorithm>
#include <bit>

namespace baechi::validate::replay {

namespace {

constexpr unsigned smallest_group =
    8;  // SMs; compute capability 9.0 makes no smaller one by default

std::vector<CUdevResource> groups_of(const CUdevResource& all, Split& split) {
  const auto by_count =
      driver_function<PFN_cuDevSmResourceSplitByCount_v12040>("cuDevSmResourceSplitByCount", 12040);
  unsigned groups = 0;
  REPLAY_CUDA(by_count(nullptr, &groups, &all, nullptr, 0, smallest_group));
  std::vector<CUdevResource> made(groups);
  CUdevResource rest{};
  REPLAY_CUDA(by_count(made.data(), &groups, &all, &rest, 0, smallest_group));
  made.resize(groups);
  split = {.total = all.sm.smCount,
           .minimum = all.sm.minSmPartitionSize,
           .alignment = all.sm.smCoscheduledAlignment,
           .groups = groups,
           .group_sms = groups == 0 ? 0 : made.front().sm.smCount,
           .left_over = rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0};
  return made;
}

/// A context of `count` groups, with the number of SMs that the driver reads back.
Part part_of(CUdevResource* groups, unsigned count, CUdevice device) {
  const auto describe =
      driver_function<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc", 12040);
  const auto create = driver_function<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", 12040);
  const auto read_back =
      driver_function<PFN_cuGreenCtxGetDevResource_v12040>("cuGreenCtxGetDevResource", 12040);
  CUdevResourceDesc description = nullptr;
  REPLAY_CUDA(describe(&description, groups, count));
  Part part;
  REPLAY_CUDA(create(&part.context, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  CUdevResource got{};
  REPLAY_CUDA(read_back(part.context, &got, CU_DEV_RESOURCE_TYPE_SM));
  part.sms = got.sm.smCount;
  return part;
}

}  // namespace

std::string Split::text() const {
  return std::to_string(total) + " SMs, smallest part " + std::to_string(minimum) + ", alignment " +
         std::to_string(alignment) + ": " + std::to_string(groups) + " groups of " +
         std::to_string(group_sms) + ", " + std::to_string(left_over) + " left over";
}

std::vector<Part> green_partitions(int devices, Split& split) {
  const auto resource =
      driver_function<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", 12040);
  int gpu = 0;
  REPLAY_CUDA(cudaGetDevice(&gpu));
  CUdevResource all{};
  REPLAY_CUDA(resource(gpu, &all, CU_DEV_RESOURCE_TYPE_SM));
  std::vector<CUdevResource> groups = groups_of(all, split);
  const unsigned each = split.groups / static_cast<unsigned>(devices);
  if (each < 2)
    throw Skip(std::to_string(devices) + " devices need 2 groups of SMs each; " + split.text());
  std::vector<Part> parts;
  CUdevResource* next = groups.data();
  for (int device = 0; device < devices; ++device) {
    for (const unsigned size : {each - 1, 1U}) {
      parts.push_back(part_of(next, size, gpu));
      next += size;
    }
  }
  return parts;
}

std::vector<Part> capped_partitions(int devices, unsigned sms) {
  const unsigned each = sms / static_cast<unsigned>(devices);
  const unsigned link = std::clamp(each / 4, 1U, smallest_group);
  std::vector<Part> parts;
  for (int device = 0; device < devices; ++device) {
    parts.push_back({.sms = std::max(1U, each - link)});
    parts.push_back({.sms = link});
  }
  return parts;
}

Stream make_stream(const Part& part) {
  CUstream made = nullptr;
  if (part.context == nullptr) {
    REPLAY_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  } else {
    const auto create =
        driver_function<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", 12050);
    REPLAY_CUDA(create(&made, part.context, CU_STREAM_NON_BLOCKING, 0));
  }
  return Stream(made);
}

Event event_of(const Part& part) {
  const auto context_of = driver_function<PFN_cuCtxFromGreenCtx_v12040>("cuCtxFromGreenCtx", 12040);
  const auto push = driver_function<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent", 4000);
  const auto pop = driver_function<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent", 4000);
  CUcontext context = nullptr;
  REPLAY_CUDA(context_of(&context, part.context));
  REPLAY_CUDA(push(context));
  cudaEvent_t made = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
  pop(&context);
  check(error, "cudaEventCreateWithFlags");
  return Event(made);
}

int count(const SmSet& set) {
  int bits = 0;
  for (const unsigned long long word : set) bits += std::popcount(word);
  return bits;
}

bool within(const SmSet& inner, const SmSet& outer) {
  for (std::size_t i = 0; i < inner.size(); ++i)
    if ((inner[i] & ~outer[i]) != 0) return false;
  return true;
}

bool overlap(const SmSet& a, const SmSet& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if ((a[i] & b[i]) != 0) return true;
  return false;
}

}  // namespace baechi::validate::replay
