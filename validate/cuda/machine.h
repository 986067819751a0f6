/// The virtual devices that plans run on: parts of one GPU.
#pragma once

#include "validate/cuda/cuda_check.h"
#include "validate/cuda/kernels.h"
#include "validate/plan/plan.h"

namespace baechi::validate::replay {

/// A set of SMs. Without a context: all of the GPU, on which grids keep to `sms` blocks' worth.
struct Part {
  CUgreenCtx context = nullptr;
  unsigned sms = 0;
  SmSet seen{};  ///< SM ids on which a full load of blocks ran
};

/// The driver's answer about the cut.
struct Split {
  unsigned total = 0;
  unsigned minimum = 0;    ///< SMs in the smallest part it makes
  unsigned alignment = 0;  ///< of parts' sizes
  unsigned groups = 0;
  unsigned group_sms = 0;
  unsigned left_over = 0;

  std::string text() const;
};

/// Disjoint parts of the current GPU: per device one of compute and one, of one group of SMs, of
/// links. The driver is asked for ONE split into smallest groups, of which parts are made: two
/// splits would overlap. Throws Skip if the driver cannot, or if there are too few groups. [2 *
/// devices], compute and link in turn
std::vector<Part> green_partitions(int devices, Split& split);

/// The same sizes without green contexts: every part may run anywhere.
std::vector<Part> capped_partitions(int devices, unsigned sms);

/// Where kernels of this stream run, and nowhere else. Does not wait for the default stream.
Stream make_stream(const Part& part);

/// An event of the part's green context, which is made current for that. Throws Skip if the driver
/// lacks the functions, CudaError if they fail.
Event event_of(const Part& part);

int count(const SmSet& set);
bool within(const SmSet& inner, const SmSet& outer);
bool overlap(const SmSet& a, const SmSet& b);

class ClockRate {
 public:
  ClockRate();

  void sample();

  unsigned lowest() const { return lowest_; }  ///< MHz; 0 if it could not be read
  unsigned highest() const { return highest_; }

 private:
  void* device_ = nullptr;
  int (*clock_info_)(void* device, int type, unsigned* mhz) = nullptr;
  unsigned lowest_ = 0, highest_ = 0;
};

/// A handle with a workspace of its own, for one device's partition.
class Cublas {
 public:
  /// Throws Skip if there is no library (`libcublas.so.13` or `.12`, where the loader looks).
  explicit Cublas(unsigned sms);
  ~Cublas() { destroy_(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// C [m, n] = A [m, k] B [k, n], half in, float out. Can be captured.
  void gemm(cudaStream_t stream, float* c, const void* a, const void* b, std::int64_t m,
            std::int64_t n, std::int64_t k);

  static std::string library();  ///< the file that would be used; empty: none

 private:
  // As in cublas_api.h, which need not be there to build.
  using Status = int;
  void* handle_ = nullptr;
  DeviceMemory workspace_;
  Status (*destroy_)(void* handle);
  Status (*set_stream_)(void* handle, cudaStream_t stream);
  Status (*set_workspace_)(void* handle, void* memory, std::size_t bytes);
  Status (*gemm_ex_)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                     const void* alpha, const void* a, int type_a, int lda, const void* b,
                     int type_b, int ldb, const void* beta, void* c, int type_c, int ldc,
                     int compute, int algorithm);
};

struct MachineOptions {
  int devices = 4;
  int queues = 1;  ///< transfer queues per device
  std::int64_t scratch =
      512LL << 20;  ///< bytes that ops read, and as many that they write, per device
  std::int64_t pinned = 256LL << 20;  ///< bytes of host memory per device
  bool green_contexts = true;         ///< else grids are capped, and parts overlap
};

struct Device {
  Part compute, link;
  Stream compute_queue;
  std::vector<Stream> transfer_queues;
  DeviceMemory inputs, outputs;  ///< scratch; inputs are random halves
  PinnedMemory pinned;
  std::unique_ptr<Cublas> cublas;  ///< made by the first plan that needs it
};

class Machine {
 public:
  /// Throws Skip where there is no usable GPU or it cannot be cut as asked.
  explicit Machine(const MachineOptions& options);

  const MachineOptions& options() const { return options_; }
  Device& device(int index) { return devices_[static_cast<std::size_t>(index)]; }
  const Device& device(int index) const { return devices_[static_cast<std::size_t>(index)]; }
  cudaStream_t queue(const Task& task);
  /// Writes over the data of earlier runs in the GPU's cache. Otherwise a small op would find its
  /// data there in a benchmark, but not in a replay.
  void flush_cache() const;
  /// Makes the device's handle of cuBLAS, if it has none, and looks again where the parts' kernels
  /// run: with modules that launch kernels themselves, parts share two more SMs on Hopper. Throws
  /// Skip or CudaError where there is no cuBLAS.
  void need_cublas(Device& device);
  /// To be recorded behind `task` in its queue.
  Event event_for(const Task& task) const;
  /// True if streams of green contexts refuse events of the GPU's own context. Each part then has
  /// its own events.
  bool events_of_parts() const { return events_of_parts_; }

  /// A flag and its answer in host memory, for the start gate: [open, late].
  unsigned* gate() { return reinterpret_cast<unsigned*>(gate_.get()); }

  const Split& split() const { return split_; }
  bool disjoint() const { return disjoint_; }  ///< no SM was seen in two parts
  bool complete() const { return complete_; }  ///< all of each part's SMs were seen
  std::int64_t timer_tick() const { return timer_tick_; }

 private:
  void make_parts();
  void make_queues(Device& device) const;
  void make_memory(Device& device) const;
  void ask_for_events();
  void look_at_sms();

  MachineOptions options_;
  Split split_;
  std::vector<Device> devices_;
  DeviceMemory flushed_;  ///< twice the cache
  std::size_t flushed_bytes_ = 0;
  PinnedMemory gate_;
  bool disjoint_ = false, complete_ = false, events_of_parts_ = false;
  std::int64_t timer_tick_ = 0;
};

/// Makes the settings that must precede the first CUDA call. Throws Skip if there is no GPU.
void open_gpu();

/// Facts about the GPU that device 0 is on, for machine.txt: "gpu", "driver", "cuda", "sms" and
/// more.
std::vector<std::pair<std::string, std::string>> gpu_facts();

std::int64_t host_ns();  ///< of a monotonic clock

}  // namespace baechi::validate::replay
