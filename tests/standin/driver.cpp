/// The stand-in's green contexts: 16 groups of 8 multiprocessors, and 4 unused ones.
#include <cudaTypedefs.h>

#include <memory>
#include <string_view>

#include "tests/standin/standin.h"

struct CUgreenCtx_st {
  std::vector<int> groups;
};
struct CUdevResourceDesc_st {
  std::vector<int> groups;
};

namespace {

std::vector<CUgreenCtx> stack;                         // of current contexts
std::vector<std::unique_ptr<CUgreenCtx_st>> contexts;  // never freed
std::vector<std::unique_ptr<CUdevResourceDesc_st>> descriptions;

CUresult result_of(const char* call) { return static_cast<CUresult>(standin::fault(call)); }

CUresult resource(CUdevice, CUdevResource* all, CUdevResourceType type) {
  *all = {
      .type = type, .sm = {standin::num_sms, standin::group_sms, standin::group_sms}, .group = 0};
  return result_of("cuDeviceGetDevResource");
}

CUresult split(CUdevResource* made, unsigned* count, const CUdevResource*, CUdevResource* rest,
               unsigned, unsigned) {
  *count = standin::num_groups;
  for (int i = 0; made != nullptr && i < standin::num_groups; ++i)
    made[i] = {.type = CU_DEV_RESOURCE_TYPE_SM, .sm = {standin::group_sms, 0, 0}, .group = i};
  if (rest != nullptr)
    *rest = {.type = CU_DEV_RESOURCE_TYPE_SM,
             .sm = {standin::num_sms - standin::num_groups * standin::group_sms, 0, 0},
             .group = 0};
  return result_of("cuDevSmResourceSplitByCount");
}

CUresult describe(CUdevResourceDesc* made, CUdevResource* groups, unsigned count) {
  descriptions.push_back(std::make_unique<CUdevResourceDesc_st>());
  for (unsigned i = 0; i < count; ++i) descriptions.back()->groups.push_back(groups[i].group);
  *made = descriptions.back().get();
  return result_of("cuDevResourceGenerateDesc");
}

CUresult create(CUgreenCtx* made, CUdevResourceDesc description, CUdevice, unsigned) {
  if (standin::asked("STANDIN_NO_GREEN")) return CUDA_ERROR_NOT_SUPPORTED;
  contexts.push_back(std::make_unique<CUgreenCtx_st>(CUgreenCtx_st{description->groups}));
  *made = contexts.back().get();
  return result_of("cuGreenCtxCreate");
}

CUresult read_back(CUgreenCtx context, CUdevResource* got, CUdevResourceType type) {
  const auto sms = standin::group_sms * static_cast<unsigned>(context->groups.size()) +
                   (standin::asked("STANDIN_SEEN_LESS") ? 1U : 0U);
  *got = {.type = type, .sm = {sms, 0, 0}, .group = 0};
  return result_of("cuGreenCtxGetDevResource");
}

CUresult stream_of(CUstream* made, CUgreenCtx context, unsigned, int) {
  if (const CUresult error = result_of("cuGreenCtxStreamCreate"); error != CUDA_SUCCESS)
    return error;
  standin::SmSet sms{};
  for (const int group : context->groups)
    for (std::size_t i = 0; i < standin::group_sms; ++i) {
      const std::size_t first =
          standin::asked("STANDIN_OVERLAP") ? 0 : static_cast<std::size_t>(group);
      const std::size_t sm = first * standin::group_sms + i;
      sms[sm / 64] |= 1ULL << (sm % 64);
    }
  *made = standin::new_stream(sms, context);
  return CUDA_SUCCESS;
}

CUresult context_of(CUcontext* made, CUgreenCtx context) {
  *made = reinterpret_cast<CUcontext>(context);
  return result_of("cuCtxFromGreenCtx");
}
CUresult push(CUcontext context) {
  if (const CUresult error = result_of("cuCtxPushCurrent"); error != CUDA_SUCCESS) return error;
  stack.push_back(reinterpret_cast<CUgreenCtx>(context));
  return CUDA_SUCCESS;
}
CUresult pop(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

}  // namespace

CUgreenCtx standin::current_context() { return stack.empty() ? nullptr : stack.back(); }

void* standin::driver_function(const char* name) {
  const std::string_view wanted = name;
  const auto as = [](auto* function) { return reinterpret_cast<void*>(function); };
  if (wanted == "cuDeviceGetDevResource") return as(&resource);
  if (wanted == "cuDevSmResourceSplitByCount") return as(&split);
  if (wanted == "cuDevResourceGenerateDesc") return as(&describe);
  if (wanted == "cuGreenCtxCreate") return as(&create);
  if (wanted == "cuGreenCtxGetDevResource") return as(&read_back);
  if (wanted == "cuGreenCtxStreamCreate") return as(&stream_of);
  if (wanted == "cuCtxFromGreenCtx") return as(&context_of);
  if (wanted == "cuCtxPushCurrent") return as(&push);
  if (wanted == "cuCtxPopCurrent") return as(&pop);
  return nullptr;
}
