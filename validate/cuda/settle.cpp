#include <cuda_fp16.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <random>

#include "validate/cuda/measure.h"
#include "validate/cuda/run_folder.h"

namespace baechi::validate::replay {

namespace {

template <class T>
std::vector<T> from_device(const DeviceMemory& memory, std::size_t count) {
  std::vector<T> copy(count);
  REPLAY_CUDA(cudaMemcpy(copy.data(), memory.get(), count * sizeof(T), cudaMemcpyDeviceToHost));
  return copy;
}

DeviceMemory random_halves(std::size_t count, unsigned seed) {
  DeviceMemory memory = device_memory(2 * count);
  launch_fill(nullptr, memory.get(), static_cast<std::int64_t>(count), seed);
  return memory;
}

/// Relative error of A B by the Frobenius norm.
double gemm_error(int n) {
  const auto size = static_cast<std::size_t>(n);
  const DeviceMemory a = random_halves(size * size, 1);
  const DeviceMemory b = random_halves(size * size, 2);
  const DeviceMemory c = device_memory(4 * size * size);
  launch_gemm(nullptr, 4, reinterpret_cast<float*>(c.get()), a.get(), b.get(), n, nullptr);
  const auto left = from_device<__half>(a, size * size);
  const auto right = from_device<__half>(b, size * size);
  const auto got = from_device<float>(c, size * size);
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < size; ++k)
        sum += static_cast<double>(__half2float(left[i * size + k])) *
               static_cast<double>(__half2float(right[k * size + j]));
      const double off = sum - static_cast<double>(got[i * size + j]);
      error += off * off;
      norm += sum * sum;
    }
  }
  return std::sqrt(error / norm);
}

bool link_copies(std::size_t bytes) {
  const DeviceMemory from = random_halves(bytes / 2, 3);
  const DeviceMemory to = random_halves(bytes / 2, 4);
  launch_link(nullptr, 2, to.get(), from.get(), static_cast<std::int64_t>(bytes), 1000, nullptr);
  return from_device<char>(from, bytes) == from_device<char>(to, bytes);
}

bool ew_computes(std::size_t floats) {
  std::vector<float> values(floats);
  for (std::size_t i = 0; i < floats; ++i) values[i] = static_cast<float>(i);
  const DeviceMemory from = device_memory(4 * floats);
  const DeviceMemory to = device_memory(4 * floats);
  REPLAY_CUDA(cudaMemcpy(from.get(), values.data(), 4 * floats, cudaMemcpyHostToDevice));
  launch_ew(nullptr, 4, to.get(), from.get(), static_cast<std::int64_t>(8 * floats), nullptr);
  const auto got = from_device<float>(to, floats);
  for (std::size_t i = 0; i < floats; ++i)
    if (std::abs(got[i] - (values[i] / 2 + 1)) > 0) return false;
  return true;
}

constexpr int runs = 12;  // of each plan, after 2 to warm up

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
  char line[600];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  return line;
}

struct Answer {
  bool good = true;
  std::string what{};
};

/// Compares gemm, ew and link with the host's results. Returns the mistake, or "". Throws
/// CudaError.
std::string wrong_kernel() {
  for (const int n : {16, 64, 144}) {  // less than a tile, one tile, tiles that stick out
    const double error = gemm_error(n);
    if (!(error < 1e-3)) return "gemm " + std::to_string(n) + " is off by " + std::to_string(error);
  }
  if (!link_copies(16384 * 5 + 256)) return "link does not copy";
  if (!ew_computes(100'000)) return "ew does not compute";
  return "";
}

std::vector<double> samples_of(Machine& machine, const Benchmark& benchmark) {
  Step step(machine, benchmark.plan);
  std::vector<double> all;
  for (int i = -2; i < runs; ++i) {
    const StepResult result = step.run();
    if (result.verdict != StepResult::Verdict::ok) throw CudaError(cudaErrorUnknown, result.why);
    if (i < 0) continue;
    const std::vector<double> some =
        benchmark.samples(result.times, result.first_ns, result.submit_ns);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// The benchmarks whose row begins so: "what,mode,way,subject,args,against,count".
std::vector<Benchmark> chosen(int devices, bool cublas, const std::string& begin) {
  std::vector<Benchmark> all = benchmarks({.devices = devices, .cublas = cublas});
  std::erase_if(all, [&](const Benchmark& b) { return !b.row.line().starts_with(begin); });
  return all;
}

class Questions {
 public:
  explicit Questions(int devices) : devices_(devices) {}

  /// All but the first two need a machine.
  bool can_answer(Answer (Questions::*question)()) const {
    return machine_ != nullptr || question == &Questions::kernels ||
           question == &Questions::green_contexts;
  }

  Answer kernels() {
    const std::string wrong = wrong_kernel();
    return {wrong.empty(), wrong.empty() ? "gemm, ew and link agree with the host" : wrong};
  }

  Answer green_contexts() {
    MachineOptions options{.devices = devices_};
    try {
      machine_ = std::make_unique<Machine>(options);
    } catch (const std::runtime_error& error) {
      options.green_contexts = false;
      machine_ = std::make_unique<Machine>(options);
      return {false, std::string("no, going on with capped grids: ") + error.what()};
    }
    const Device& device = machine_->device(0);
    return {machine_->disjoint(),
            text("yes: %s; %d devices of %u + %u SMs; %s, %s", machine_->split().text().c_str(),
                 devices_, device.compute.sms, device.link.sms,
                 machine_->disjoint() ? "disjoint" : "NOT DISJOINT",
                 machine_->complete() ? "all SMs seen" : "NOT ALL SMS SEEN")};
  }

  /// Full-width ops on all devices, each after the one before it on the next device. A step itself
  /// refuses ops outside their parts, and ops before what they come after.
  Answer graphs() {
    ReplayPlan plan = empty_plan("graph", devices_, SubmitMode::graph, Way::link);
    for (int i = 0; i < 4 * devices_; ++i)
      add_op(plan, i % devices_, {.kind = BodyKind::gemm, .args = {1024}},
             i < devices_
                 ? std::vector<int>{}
                 : std::vector<int>{i - devices_ + (i % devices_ == 0 ? devices_ - 1 : -1)});
    Step step(*machine_, plan);
    for (int i = 0; i < runs; ++i) {
      const StepResult result = step.run();
      if (result.verdict != StepResult::Verdict::ok) return {false, "no: " + result.why};
    }
    return {true, "yes: captured graphs keep parts and order"};
  }

  Answer events() {
    return {true, machine_->events_of_parts()
                      ? "no, not of the GPU's own context; events of each part's context are taken"
                      : "yes, events of the GPU's own context are taken by every part's streams"};
  }

  Answer timer() {
    const auto tick = static_cast<long long>(machine_->timer_tick());
    return {tick > 0 && tick <= 2000, text("%lld ns", tick)};
  }

  Answer gaps() {
    std::string all;
    for (const char* mode : {"graph", "stream"}) {
      for (const char* kind : {"gap_same", "gap_cross"}) {
        const auto gap =
            samples_of(*machine_, chosen(devices_, false, std::string(kind) + "," + mode).front());
        all += text("%s %s %.0f ns (%.0f to %.0f), ", mode, kind + 4, trimmed_mean(gap),
                    quantile(gap, 0.05), quantile(gap, 0.95));
        if (std::string(mode) == "graph")
          (std::string(kind) == "gap_same" ? same_ : cross_) = trimmed_mean(gap);
      }
    }
    std::vector<double> errors;
    errors.reserve(8);
    for (unsigned seed = 0; seed < 8; ++seed) errors.push_back(first_layer_error(seed));
    const double middle = 100 * median(errors);
    return {middle <= 1, all + text("spin and link plans: %.2f %% median error, %.2f %% worst",
                                    middle, 100 * quantile(errors, 1))};
  }

  Answer copy_engines() {
    std::string all;
    for (const char* way : {"d2h", "h2d"}) {
      std::vector<double> times;
      double bytes = 0;
      for (const Benchmark& b :
           chosen(devices_, false, std::string("contention,graph,host,") + way)) {
        times.push_back(median(samples_of(*machine_, b)));
        bytes = std::stod(b.row.args);
      }
      all += text("%s%s %.1f GB/s, %d at once take %.2f times as long", all.empty() ? "" : "; ",
                  way, bytes / times.front(), devices_, times.back() / times.front());
    }
    return {true, all};
  }

  Answer neighbours() {
    std::string all;
    for (const auto& [subject, args] : {std::pair{"gemm", "2048"}, {"ew", "268435456"}}) {
      const std::string row = std::string(subject) + "," + args;
      const double alone =
          median(samples_of(*machine_, chosen(devices_, false, "op,graph,," + row).front()));
      all += text("%s%s alone %.0f us", all.empty() ? "" : "; ", subject, alone / 1000);
      for (const char* against : {"spin", "gemm", "ew"}) {
        all += text(", beside %s", against);
        for (const Benchmark& b :
             chosen(devices_, false, "interference,graph,," + row + "," + against)) {
          const std::vector<double> beside = samples_of(*machine_, b);
          all += beside.empty() ? " ?" : text(" %.3f", median(beside) / alone);
        }
      }
    }
    return {true, all};
  }

  /// Two copies to the host: what was captured first is ready last.
  Answer copy_order() {
    ReplayPlan plan = empty_plan("order", devices_, SubmitMode::graph, Way::host);
    constexpr std::int64_t bytes = 1 << 20;
    const int late = add_spin(plan, 0, 5'000'000);
    const int first = add_transfer(plan, 0, Task::host, bytes, 0, {late});
    const int soon = add_spin(plan, 1, 100'000);
    const int second = add_transfer(plan, 1, Task::host, bytes, 0, {soon});
    add_spin(plan, 0, 100'000, {first});
    const auto reader = static_cast<std::size_t>(add_spin(plan, 1, 100'000, {second}));
    Step step(*machine_, plan);
    int waited = 0;
    for (int i = 0; i < runs; ++i) {
      const StepResult result = step.run();
      if (result.verdict != StepResult::Verdict::ok) throw CudaError(cudaErrorUnknown, result.why);
      waited += result.times[reader].start > result.times[static_cast<std::size_t>(late)].end;
    }
    return {true, text("a copy that is ready waits for one captured before it in %d of %d steps",
                       waited, runs)};
  }

  /// A GEMM before, and after seconds of GEMMs on all devices.
  Answer clock() {
    const Benchmark watch = canary();
    ReplayPlan load = empty_plan("load", devices_, SubmitMode::stream, Way::link);
    for (int i = 0; i < 50 * devices_; ++i)
      add_op(load, i % devices_, {.kind = BodyKind::gemm, .args = {2048}});
    Step step(*machine_, load);
    ClockRate rate;
    rate.sample();
    const double before = median(samples_of(*machine_, watch));
    for (const std::int64_t begin = host_ns(); host_ns() - begin < 4'000'000'000;) {
      step.run();
      rate.sample();
    }
    const double after = median(samples_of(*machine_, watch));
    return {std::abs(after / before - 1) <= 0.02,
            text("a GEMM takes %.4f times as long after 4 s of GEMMs on all devices; SM clock %u "
                 "to %u MHz",
                 after / before, rate.lowest(), rate.highest())};
  }

  Answer libraries() {
    std::string all = text("this binary runs on glibc %s; cuBLAS: ", gnu_get_libc_version());
    if (Cublas::library().empty()) return {true, all + "none"};
    const double time = median(
        samples_of(*machine_, chosen(devices_, true, "op,graph,,cublas,2048 2048 2048").front()));
    return {true, all + Cublas::library() + text(", 2048^3 in %.0f us on one device", time / 1000)};
  }

 private:
  /// Relative error of the step time that a queue model with the measured gaps foretells.
  double first_layer_error(unsigned seed) {
    std::mt19937 random(seed);
    ReplayPlan plan = empty_plan("random", devices_, SubmitMode::graph, Way::link);
    std::vector<int> ops;
    for (int i = 0; i < 60; ++i) {
      const int device = static_cast<int>(random() % static_cast<unsigned>(devices_));
      std::vector<int> after;
      for (int k = 0; k < 2 && i > 0; ++k) {
        const int before =
            ops[static_cast<std::size_t>(std::max(0, i - 1 - static_cast<int>(random() % 12)))];
        const int from = plan.tasks[static_cast<std::size_t>(before)].owner();
        after.push_back(
            from == device ? before : add_transfer(plan, from, device, 1 << 20, 60'000, {before}));
      }
      std::ranges::sort(after);
      after.erase(std::ranges::unique(after).begin(), after.end());
      ops.push_back(add_spin(plan, device, 50'000 + static_cast<std::int64_t>(random() % 400'000),
                             std::move(after)));
    }
    const Timeline foretold = first_in_first_out(plan, std::llround(same_), std::llround(cross_));
    Step step(*machine_, plan);
    std::vector<double> spans;
    for (int i = 0; i < runs; ++i) {
      const StepResult result = step.run();
      if (result.verdict != StepResult::Verdict::ok) throw CudaError(cudaErrorUnknown, result.why);
      spans.push_back(static_cast<double>(span(result.times)));
    }
    return std::abs(static_cast<double>(span(foretold)) / median(spans) - 1);
  }

  int devices_;
  std::unique_ptr<Machine> machine_;
  double same_ = 0, cross_ = 0;  // ns, mode graph
};

}  // namespace

int settle(const std::string& folder, int devices) {
  open_gpu();
  TextFile file(folder + "/settled.txt", "baechi-settled 1");
  Questions questions(devices);
  using Ask = Answer (Questions::*)();
  const std::pair<const char*, Ask> all[]{
      {"0 kernels", &Questions::kernels},
      {"1 green contexts", &Questions::green_contexts},
      {"11 events across contexts", &Questions::events},
      {"2 graphs over parts", &Questions::graphs},
      {"3 timer tick", &Questions::timer},
      {"4 gaps", &Questions::gaps},
      {"5 copy engines", &Questions::copy_engines},
      {"6 neighbours", &Questions::neighbours},
      {"8 clock", &Questions::clock},
      {"9 libraries", &Questions::libraries},
      {"12 order of copies", &Questions::copy_order},
  };
  int bad = 0;
  for (const auto& [name, ask] : all) {
    Answer answer{.good = false};
    try {
      if (!questions.can_answer(ask)) throw CudaError(cudaErrorUnknown, "no machine could be made");
      answer = (questions.*ask)();
    } catch (const std::runtime_error& error) {
      answer = {false, std::string("no answer: ") + error.what()};
    }
    const std::string line = std::string(answer.good ? "ok  " : "BAD ") + name + ": " + answer.what;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    file.line(line);
    file.flush();
    bad += answer.good ? 0 : 1;
  }
  file.finish();
  return bad == 0 ? 0 : 1;
}

}  // namespace baechi::validate::replay
