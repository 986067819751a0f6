#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <set>

#include "tests/standin/standin.h"
#include "validate/cuda/machine.h"

using standin::Engine;
using standin::fails;
using standin::host;
using standin::SmSet;
using standin::Stamp;

/// Returns the error of STANDIN_FAULT for this call.
#define STANDIN_CALL(name) \
  if (const cudaError_t bad = standin::fault(name); bad != cudaSuccess) return bad

struct Node {
  int stream;
  std::int64_t ns;
  std::vector<std::size_t> after;
  Stamp* stamp;
  SmSet sms;
  Engine engine;
  bool gate;
  standin::Touched touched;
  std::int64_t end = 0;
};
struct CUgraph_st {
  std::vector<Node> nodes;
};
struct CUgraphExec_st {
  std::vector<Node> nodes;
};
struct CUstream_st {
  int id = 0;
  SmSet sms{};
  CUgreenCtx context = nullptr;
  std::int64_t ready = 0, waits = 0;
  bool used = false;
  CUgraph_st* graph = nullptr;  // being captured
  std::vector<std::size_t> after{};
};
struct CUevent_st {
  CUgreenCtx context = nullptr;
  std::int64_t at = 0;
  int stream = -1;
  CUgraph_st* graph = nullptr;
  std::vector<std::size_t> after{};
};

namespace {

std::set<CUstream_st*> streams;
CUstream_st default_stream;
std::int64_t engine_free[3]{};
std::map<void*, std::size_t> mapped;
std::deque<std::pair<const void*, std::size_t>> cached;  // the last touched comes first
cudaError_t sticky = cudaSuccess, last = cudaSuccess;

CUstream_st* of(cudaStream_t stream) { return stream == nullptr ? &default_stream : stream; }

void mark(Stamp* stamp, std::int64_t begin, std::int64_t end, const SmSet& sms) {
  if (stamp == nullptr) return;
  stamp->begin = std::min<unsigned long long>(stamp->begin, static_cast<unsigned long long>(begin));
  stamp->end = std::max<unsigned long long>(stamp->end, static_cast<unsigned long long>(end));
  for (std::size_t i = 0; i < sms.size(); ++i) stamp->sms[i] |= sms[i];
}

/// Start of a copy of `ns` that is ready at `begin`, after the engine's previous one.
std::int64_t on_engine(Engine engine, std::int64_t begin, std::int64_t ns) {
  if (engine == Engine::none) return begin;
  std::int64_t& free = engine_free[static_cast<int>(engine)];
  begin = std::max(begin, free);
  free = begin + ns;
  return begin;
}

void touch(const void* memory, std::size_t bytes) {
  std::erase_if(cached, [&](const auto& entry) { return entry.first == memory; });
  cached.emplace_front(memory, bytes);
  std::size_t sum = 0, kept = 0;
  const std::size_t most = std::strtoull(std::getenv("STANDIN_CACHE"), nullptr, 10);
  while (kept < cached.size() && (sum += cached[kept].second) <= most) ++kept;
  cached.resize(kept);
}

/// Duration of a kernel of `ns`, halved on a cache hit. Updates the cache.
std::int64_t with_cache(std::int64_t ns, const standin::Touched& touched) {
  if (touched.bytes == 0 || !standin::asked("STANDIN_CACHE")) return ns;
  const bool hit = std::ranges::any_of(cached, [&](const auto& entry) {
    return entry.first == touched.from && entry.second >= touched.bytes;
  });
  touch(touched.from, touched.bytes);
  touch(touched.to, touched.bytes);
  if (hit) std::fputs("stand-in: found in the cache\n", stderr);
  return hit ? ns / 2 : ns;
}

/// Reserves address space; untouched pages take no memory.
void* map_memory(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mapped[memory] = bytes;
  return memory;
}

cudaError_t unmap(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  munmap(memory, mapped.at(memory));
  mapped.erase(memory);
  return cudaSuccess;
}

/// Counts calls, and writes the counts at exit.
struct Calls {
  std::map<std::string, long> made;
  ~Calls() {
    if (const char* file = std::getenv("STANDIN_CALLS")) {
      std::ofstream out(file);
      for (const auto& [name, count] : made) out << name << ' ' << count << '\n';
    }
  }
} calls;

}  // namespace

namespace standin {

std::int64_t host = 1'000'000'000;

bool asked(const char* variable) { return std::getenv(variable) != nullptr; }

cudaError_t fails(cudaError_t error) { return last = error; }

cudaError_t fault(const char* call) {
  host += 300;
  const long n = ++calls.made[call];
  if (sticky != cudaSuccess) return last = sticky;
  const char* const wanted = std::getenv("STANDIN_FAULT");
  if (wanted == nullptr) return cudaSuccess;
  const std::string text = wanted;
  const std::size_t a = text.find(':'), b = text.find(':', a + 1), c = text.find(':', b + 1);
  if (text.substr(0, a) != call) return cudaSuccess;
  const long nth = std::atol(text.substr(a + 1, b - a - 1).c_str());
  if (nth != 0 && n != nth) return cudaSuccess;
  const std::string code = text.substr(b + 1, c - b - 1);
  if (code == "kill") std::raise(SIGKILL);
  const auto error = static_cast<cudaError_t>(std::atoi(code.c_str()));
  if (c != std::string::npos) sticky = error;
  return last = error;
}

SmSet all_sms() {
  SmSet sms{};
  for (std::size_t i = 0; i < num_sms; ++i) sms[i / 64] |= 1ULL << (i % 64);
  return sms;
}

cudaStream_t new_stream(const SmSet& sms, CUgreenCtx context) {
  static int next = 1;
  auto* const stream = new CUstream_st{.id = next++, .sms = sms, .context = context};
  streams.insert(stream);
  return stream;
}

cudaError_t run(cudaStream_t stream, std::int64_t ns, Stamp* stamp, Engine engine, bool gate,
                const Touched& touched) {
  STANDIN_CALL("kernel");
  CUstream_st* const s = of(stream);
  host += 1500;
  if (s->graph != nullptr) {
    s->graph->nodes.push_back({s->id, ns, s->after, stamp, s->sms, engine, gate, touched});
    s->after = {s->graph->nodes.size() - 1};
    return cudaSuccess;
  }
  ns = with_cache(ns, touched);
  std::int64_t begin =
      std::max({s->used ? s->ready + truth::stream.same : s->ready, s->waits, host});
  begin = on_engine(engine, begin, ns);
  s->ready = gate ? host + 10'000'000 : begin + ns;
  s->used = true;
  mark(stamp, begin, begin + ns, s == &default_stream ? all_sms() : s->sms);
  return cudaSuccess;
}

}  // namespace standin

extern "C" void standin_module_loaded() {
  if (!standin::asked("STANDIN_CDP")) return;
  for (CUstream_st* s : streams) s->sms[2] |= 3;
}

extern "C" int standin_gemm(cudaStream_t stream, double flops) {
  return standin::run(stream, 3000 + static_cast<std::int64_t>(flops / 60'000), nullptr);
}

std::int64_t baechi::validate::replay::host_ns() { return host += 40; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  for (const auto& [name, wanted] : {std::pair{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
                                     {"CUDA_MODULE_LOADING", "EAGER"},
                                     {"CUDA_LAUNCH_BLOCKING", "0"}})
    if (const char* set = std::getenv(name); set != nullptr && std::string(set) != wanted)
      std::fprintf(stderr, "stand-in: %s is %s\n", name, set);
  return standin::fault("cudaGetDeviceCount");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  STANDIN_CALL("cudaGetDeviceProperties");
  *p = {.name = "Stand-in",
        .totalGlobalMem = std::size_t{80} << 30,
        .major = 9,
        .minor = 0,
        .multiProcessorCount = standin::num_sms,
        .asyncEngineCount = 3,
        .l2CacheSize = 50 << 20};
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return standin::fault("cudaDriverGetVersion");
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return standin::fault("cudaRuntimeGetVersion");
}
cudaError_t cudaSetDevice(int) { return standin::fault("cudaSetDevice"); }
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = 0;
  return standin::fault("cudaGetDevice");
}
cudaError_t cudaDeviceSynchronize() {
  STANDIN_CALL("cudaDeviceSynchronize");
  host = std::max(host, default_stream.ready);
  for (const CUstream_st* s : streams) {
    if (s->graph != nullptr) return fails(cudaErrorStreamCaptureUnsupported);
    host = std::max(host, s->ready);
  }
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = last;
  last = sticky;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) {
  static std::string name;
  name = "code " + std::to_string(static_cast<int>(error));
  return name.c_str();
}
const char* cudaGetErrorString(cudaError_t) { return "of the stand-in"; }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  STANDIN_CALL("cudaMalloc");
  *memory = map_memory(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) { return unmap(memory); }
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  STANDIN_CALL("cudaHostAlloc");
  *memory = map_memory(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return unmap(memory); }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  STANDIN_CALL("cudaMemcpy");
  host = std::max(host + 8000, default_stream.ready);
  if (bytes <= std::size_t{8} << 20) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int, std::size_t bytes) {
  STANDIN_CALL("cudaMemset");
  host = std::max(host + 8000, default_stream.ready) + static_cast<std::int64_t>(bytes / 2000);
  if (standin::asked("STANDIN_CACHE")) touch(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  STANDIN_CALL("cudaMemcpyAsync");
  const auto engine = kind == cudaMemcpyDeviceToHost   ? Engine::to_host
                      : kind == cudaMemcpyHostToDevice ? Engine::to_device
                                                       : Engine::between;
  return standin::run(stream, standin::truth::host_copy.of(static_cast<double>(bytes)), nullptr,
                      engine);
}
cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, std::size_t bytes,
                                cudaStream_t stream) {
  STANDIN_CALL("cudaMemcpyPeerAsync");
  return standin::run(stream, static_cast<std::int64_t>(bytes / 200), nullptr, Engine::between);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  STANDIN_CALL("cudaEventCreateWithFlags");
  *event = new CUevent_st{.context = standin::current_context()};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  STANDIN_CALL("cudaEventRecord");
  CUstream_st* const s = of(stream);
  host += 500;
  if (const char* code = std::getenv("STANDIN_OWN_EVENTS"); code && event->context != s->context)
    return fails(static_cast<cudaError_t>(std::atoi(code)));
  event->graph = s->graph;
  event->after = s->after;
  event->at = s->used ? s->ready : std::max(s->ready, s->waits);
  event->stream = s->id;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  STANDIN_CALL("cudaStreamCreateWithFlags");
  *stream = standin::new_stream(standin::all_sms(), nullptr);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  STANDIN_CALL("cudaStreamSynchronize");
  host = std::max(host, of(stream)->ready);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  STANDIN_CALL("cudaStreamWaitEvent");
  CUstream_st* const s = of(stream);
  host += 500;
  if (event->graph == nullptr) {
    if (s->graph != nullptr) return fails(cudaErrorStreamCaptureIsolation);
    if (event->stream != s->id)
      s->waits = std::max(s->waits, event->at + standin::truth::stream.cross);
    return cudaSuccess;
  }
  if (s->graph != nullptr && s->graph != event->graph) return fails(cudaErrorStreamCaptureMerge);
  if (s->graph == nullptr) s->after.clear();
  s->graph = event->graph;
  for (const std::size_t node : event->after)
    if (std::ranges::find(s->after, node) == s->after.end()) s->after.push_back(node);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  STANDIN_CALL("cudaStreamBeginCapture");
  if (standin::asked("STANDIN_NO_CAPTURE")) return fails(cudaErrorStreamCaptureUnsupported);
  stream->graph = new CUgraph_st;
  stream->after.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* made) {
  CUgraph_st* const graph = stream->graph;
  *made = nullptr;
  if (graph == nullptr) return fails(cudaErrorInvalidValue);
  std::set<std::size_t> joined(stream->after.begin(), stream->after.end());
  for (std::size_t i = graph->nodes.size(); i-- > 0;)
    if (joined.contains(i))
      joined.insert(graph->nodes[i].after.begin(), graph->nodes[i].after.end());
  for (CUstream_st* other : streams) {
    if (other->graph != graph) continue;
    other->graph = nullptr;
    other->after.clear();
  }
  cudaError_t error = standin::fault("cudaStreamEndCapture");
  if (error == cudaSuccess && joined.size() != graph->nodes.size())
    error = fails(cudaErrorStreamCaptureUnjoined);
  if (error == cudaSuccess)
    *made = graph;
  else
    delete graph;
  return error;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  STANDIN_CALL("cudaGraphInstantiate");
  *made = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return standin::fault("cudaGraphUpload");
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  STANDIN_CALL("cudaGraphLaunch");
  host += standin::truth::graph.submit;
  const std::int64_t from = std::max(host, stream->ready);
  std::int64_t end = from;
  // Engines serve copies as they were captured; if asked, as they are ready.
  const bool by_readiness = standin::asked("STANDIN_COPIES_AS_READY");
  std::vector<std::size_t> unmet;
  std::set<std::pair<std::int64_t, std::size_t>> next;  // what it goes by, and the node
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    unmet.push_back(graph->nodes[i].after.size());
    if (unmet[i] == 0 || !by_readiness) next.emplace(by_readiness ? from : 0, i);
  }
  const auto ready = [&](const Node& node) {
    std::int64_t begin = from;
    for (const std::size_t i : node.after) {
      const Node& before = graph->nodes[i];
      begin = std::max(begin,
                       before.end + (before.stream == node.stream ? standin::truth::graph.same
                                                                  : standin::truth::graph.cross));
    }
    return begin;
  };
  while (!next.empty()) {
    const std::size_t id = next.extract(next.begin()).value().second;
    Node& node = graph->nodes[id];
    std::int64_t begin = ready(node);
    const std::int64_t ns = with_cache(node.ns, node.touched);
    begin = on_engine(node.engine, begin, ns);
    node.end = begin + (node.gate ? 3000 : ns);
    mark(node.stamp, begin, node.end, node.sms);
    end = std::max(end, node.end);
    if (!by_readiness) continue;
    for (std::size_t i = id + 1; i < graph->nodes.size(); ++i) {
      const Node& waiting = graph->nodes[i];
      const auto of_it = std::ranges::count(waiting.after, id);
      if (of_it == 0) continue;
      unmet[i] -= static_cast<std::size_t>(of_it);
      if (unmet[i] == 0) next.emplace(ready(waiting), i);
    }
  }
  stream->ready = end;
  stream->used = true;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  STANDIN_CALL("cudaGetDriverEntryPointByVersion");
  *function = standin::driver_function(name);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
