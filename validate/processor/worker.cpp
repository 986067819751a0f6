#include "validate/processor/worker.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace baechi::validate {
namespace {

constexpr std::size_t scratch = std::size_t{64} << 20;     // bytes read, and as many written
constexpr std::size_t link_memory = std::size_t{4} << 20;  // bytes
constexpr std::int64_t chunk = 8 << 10;                    // bytes that a link copies at a time
constexpr std::int64_t piece = 4096;        // floats of ew between two looks at the links
constexpr std::int64_t some_flops = 16384;  // of a product between two looks

}  // namespace

std::int64_t clock_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

SharedStep::SharedStep(const ReplayPlan& p, std::int64_t limit_ns)
    : plan(p),
      limit(limit_ns),
      tasks(p.tasks.size()),
      bytes(static_cast<std::size_t>(p.devices)),
      readers(p.buffers.size()),
      taken_by(p.tasks.size()),
      read_by(p.tasks.size()),
      workers(static_cast<std::size_t>(p.devices)) {
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    bytes[d] = p.resident[d];
    if (p.live_memory && p.resident[d] > p.budget[d]) stop = full = true;
  }
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    taken_by[static_cast<std::size_t>(p.buffers[b].task)].push_back(b);
    for (const int reader : p.buffers[b].until)
      read_by[static_cast<std::size_t>(reader)].push_back(b);
    readers[b] = static_cast<int>(p.buffers[b].until.size());
  }
}

Worker::Worker(int device, int devices)
    : device_(device),
      inputs_(scratch / sizeof(float)),
      outputs_(scratch / sizeof(float), 1.0F),
      source_(link_memory / sizeof(float), 0.5F),
      sinks_(static_cast<std::size_t>(devices),
             std::vector<float>(link_memory / sizeof(float), 0.25F)) {
  unsigned h = 1;
  for (float& x : inputs_) {
    h = h * 1664525U + 1013904223U;
    x = static_cast<float>(h >> 8U) / 8388608.0F - 1.0F;
  }
}

void Worker::run(SharedStep& step) {
  step_ = &step;
  const ReplayPlan& plan = step.plan;
  ops_.clear();
  links_.assign(static_cast<std::size_t>(plan.queues), {});
  at_.assign(plan.tasks.size(), 0);
  std::size_t behind = 0;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& task = plan.tasks[i];
    if (task.owner() != device_) continue;
    if (task.transfer) {  // transfers lie one behind the other, and then at the beginning again
      const auto floats = (static_cast<std::size_t>(task.bytes) + 63) / 64 * 64 / sizeof(float);
      if (behind + floats > source_.size()) behind = 0;
      at_[i] = behind;
      behind += floats;
    }
    auto& queue = task.transfer ? links_[static_cast<std::size_t>(task.queue)].tasks : ops_;
    queue.push_back(static_cast<int>(i));
  }
  const std::int64_t give_up = clock_ns() + step.limit;
  step.workers[static_cast<std::size_t>(device_)] = this;
  ++step.arrived;
  while (step.arrived.load() < plan.devices && !step.stop)
    if (clock_ns() > give_up) step.stop = true;
  const auto idle = [](const Link& link) { return link.head == link.tasks.size(); };
  for (std::size_t head = 0; head < ops_.size() || !std::ranges::all_of(links_, idle);) {
    if (step.stop.load(std::memory_order_relaxed)) return;
    serve_links();
    if (head == ops_.size() || !is_ready(plan.tasks[static_cast<std::size_t>(ops_[head])])) {
      if (clock_ns() > give_up) step.stop = true;
      continue;
    }
    const int id = ops_[head++];
    begin(id);
    run_op(plan.tasks[static_cast<std::size_t>(id)],
           step.tasks[static_cast<std::size_t>(id)].start);
    end(id);
  }
}

bool Worker::is_ready(const Task& task) const {
  return std::ranges::all_of(task.after, [this](int other) {
    return step_->tasks[static_cast<std::size_t>(other)].ended.load(std::memory_order_acquire);
  });
}

void Worker::begin(int id) {
  const ReplayPlan& plan = step_->plan;
  for (const std::size_t b : step_->taken_by[static_cast<std::size_t>(id)]) {
    const Buffer& buffer = plan.buffers[b];
    const auto d = static_cast<std::size_t>(buffer.device);
    const std::int64_t taken = step_->bytes[d].fetch_add(buffer.bytes) + buffer.bytes;
    if (plan.live_memory && taken > plan.budget[d]) step_->stop = step_->full = true;
  }
  step_->tasks[static_cast<std::size_t>(id)].start = clock_ns();
}

void Worker::end(int id) {
  SharedTask& task = step_->tasks[static_cast<std::size_t>(id)];
  task.end = clock_ns();
  for (const std::size_t b : step_->read_by[static_cast<std::size_t>(id)]) {
    if (--step_->readers[b] != 0) continue;
    const Buffer& buffer = step_->plan.buffers[b];
    step_->bytes[static_cast<std::size_t>(buffer.device)] -= buffer.bytes;
  }
  task.ended.store(true, std::memory_order_release);
}

void Worker::serve_links() {
  for (Link& link : links_)
    if (link.head < link.tasks.size()) serve(link);
}

/// Starts the link's next transfer, or copies its next chunk if that is due, or ends it.
void Worker::serve(Link& link) {
  const int id = link.tasks[link.head];
  const Task& task = step_->plan.tasks[static_cast<std::size_t>(id)];
  if (!link.busy) {
    if (!is_ready(task)) return;
    begin(id);
    link.busy = true;
    link.copied = 0;
  }
  const std::int64_t begun = step_->tasks[static_cast<std::size_t>(id)].start;
  const std::int64_t told = step_->plan.way == Way::link ? task.length.count() : 0;
  const std::int64_t gone = clock_ns() - begun;
  if (link.copied < task.bytes) {
    const double share = static_cast<double>(link.copied) / static_cast<double>(task.bytes);
    if (static_cast<double>(gone) < share * static_cast<double>(told)) return;
    const std::int64_t bytes = std::min(chunk, task.bytes - link.copied);
    const auto first = at_[static_cast<std::size_t>(id)] * sizeof(float);
    const auto at = (first + static_cast<std::size_t>(link.copied)) % link_memory / sizeof(float);
    const int to = task.to == Task::host ? task.device : task.to;
    std::memcpy(sinks_[static_cast<std::size_t>(to)].data() + at, source_.data() + at,
                static_cast<std::size_t>(bytes));
    link.copied += bytes;
  }
  if (link.copied < task.bytes || gone < told) return;
  end(id);
  link.busy = false;
  ++link.head;
}

void Worker::run_op(const Task& task, std::int64_t begun) {
  switch (task.body.kind) {
    case BodyKind::spin:
      return spin_until(begun + task.body.args[0]);
    case BodyKind::ew:
      return elementwise(task.body.args[0], received(task));
    case BodyKind::gemm:
      return product(static_cast<int>(task.body.args[0]), received(task));
    case BodyKind::cublas:
      return;  // refused beforehand
  }
}

std::span<const float> Worker::written(const Task& transfer, int id, int receiver) const {
  const std::span<const float> all = sinks_[static_cast<std::size_t>(receiver)];
  const auto whole = all.subspan(at_[static_cast<std::size_t>(id)]);
  return whole.first(
      std::min(static_cast<std::size_t>(transfer.bytes) / sizeof(float), whole.size()));
}

std::span<const float> Worker::received(const Task& task) const {
  std::span<const float> most;
  for (const int id : task.after) {
    const Task& other = step_->plan.tasks[static_cast<std::size_t>(id)];
    if (!other.transfer || other.to != device_) continue;
    const auto& sender = *step_->workers[static_cast<std::size_t>(other.owner())];
    const auto mine = sender.written(other, id, device_);
    if (mine.size() > most.size()) most = mine;
  }
  return most;
}

void Worker::spin_until(std::int64_t time) {
  while (clock_ns() < time) serve_links();
}

/// Where `floats` of scratch memory begin: slices rotate, so that none is in a cache.
std::size_t Worker::slice(std::int64_t floats) {
  const auto size = static_cast<std::size_t>(floats);
  if (next_ + size > inputs_.size()) next_ = 0;
  const std::size_t begin = next_;
  next_ += (size + 63) / 64 * 64;
  return begin;
}

void Worker::elementwise(std::int64_t bytes, std::span<const float> received) {
  const auto floats = bytes / 8;  // read, and as many written
  const std::size_t at = slice(floats);
  made_ = std::span<const float>(outputs_).subspan(at, static_cast<std::size_t>(floats));
  for (std::int64_t done = 0; done < floats; done += piece) {
    float* const to = outputs_.data() + at + done;
    const std::int64_t count = std::min(piece, floats - done);
    const bool here = static_cast<std::size_t>(done + count) <= received.size();
    const float* const from = here ? received.data() + done : inputs_.data() + at + done;
    for (std::int64_t i = 0; i < count; ++i) to[i] = 0.5F * from[i] + 1.0F;
    serve_links();
  }
}

/// C = A B, n x n each, row by row.
void Worker::product(int n, std::span<const float> received) {
  const auto size = static_cast<std::size_t>(n);
  const float* const a = inputs_.data() + slice(std::int64_t{2} * n * n);
  const float* const b = a + size * size;
  float* const c = outputs_.data() + (a - inputs_.data());
  made_ = {c, size * size};
  std::int64_t flops = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const bool here = (i + 1) * size <= received.size();
    const float* const of_a = (here ? received.data() : a) + i * size;
    float* const row = c + i * size;
    std::fill_n(row, size, 0.0F);
    for (std::size_t k = 0; k < size; ++k) {
      const float left = of_a[k];
      const float* const right = b + k * size;
      for (std::size_t j = 0; j < size; ++j) row[j] += left * right[j];
      flops += 2 * n;
      if (flops < some_flops) continue;
      flops = 0;
      serve_links();
    }
  }
}

}  // namespace baechi::validate
