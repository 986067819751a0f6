#include <mpi.h>
#include <sched.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <thread>

#include "scenarios/run/ranks.h"

namespace baechi {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// The messages. To rank 0:
///   found: the number of further runs that the rank requests (0: none now), then records of
///   finished
/// runs,
///   ended: the last records; the rank sends nothing more.
/// From rank 0, once for each `found` that requests runs:
///   assigned: ids of runs; none if there are no more.
enum Tag : int { found = 1, ended, assigned };

constexpr auto pause = 50us;                // between two checks for messages
constexpr auto report_every = 200ms;        // by each rank
constexpr auto chunk_for = 100ms;           // the work that a rank requests at once
constexpr std::size_t most_at_once = 8192;  // runs

/// The next message of `tag`, or of any tag, if there is one.
bool arrived(int from, int tag, MPI_Status& status) {
  int there = 0;
  MPI_Iprobe(from, tag, MPI_COMM_WORLD, &there, &status);
  return there != 0;
}

std::string receive(const MPI_Status& status) {
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  MPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
  return bytes;
}

void send(std::string_view bytes, int to, int tag) {
  MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

class BackgroundTask {
 public:
  explicit BackgroundTask(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          try {
            work();
          } catch (...) {
            failure_ = std::current_exception();
          }
          ended_.store(true, std::memory_order_release);
        }) {}
  /// Whether the work has ended. Throws the exception of the work.
  bool ended() {
    if (!ended_.load(std::memory_order_acquire)) return false;
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  std::atomic<bool> ended_{false};
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses the others
};

/// The runs that have not begun: rank 0's threads take them one by one, other ranks in chunks.
class Dispatcher {
 public:
  Dispatcher(std::span<const std::size_t> ids, std::size_t ranks, const std::atomic<bool>* stop)
      : ids_(ids), ranks_(ranks), stop_(stop) {}

  std::optional<std::size_t> one() {
    const std::lock_guard lock(mutex_);
    if (stopped() || ids_.empty()) return std::nullopt;
    const std::size_t id = ids_.front();
    ids_ = ids_.subspan(1);
    return id;
  }

  /// At most `wanted` runs, and at most this rank's share of a quarter of the remaining runs.
  std::span<const std::size_t> chunk(std::size_t wanted) {
    const std::lock_guard lock(mutex_);
    if (stopped()) return {};
    const std::size_t share = ids_.size() / (4 * ranks_) + 1;
    const std::size_t size = std::min({wanted, share, ids_.size(), most_at_once});
    const auto assigned = ids_.first(size);
    ids_ = ids_.subspan(size);
    return assigned;
  }

 private:
  bool stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  std::mutex mutex_;
  std::span<const std::size_t> ids_;
  const std::size_t ranks_;
  const std::atomic<bool>* stop_;
};

/// The runs that rank 0 assigned to this rank, and the records of finished ones: shared by the
/// thread that communicates with rank 0 and the threads that run.
class WorkQueue {
 public:
  std::optional<std::size_t> next() {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [&] { return !dealt_.empty() || no_more_; });
    if (dealt_.empty()) return std::nullopt;
    const std::size_t id = dealt_.front();
    dealt_.pop_front();
    return id;
  }
  void take(std::span<const RunResult> rows) {
    const std::lock_guard lock(mutex_);
    for (const RunResult& row : rows) append_record(records_, row);
    found_ += rows.size();
  }

  void put(std::span<const std::uint64_t> ids) {
    {
      const std::lock_guard lock(mutex_);
      dealt_.insert(dealt_.end(), ids.begin(), ids.end());
      no_more_ = ids.empty();
    }
    there_.notify_all();
  }
  std::size_t left() const {
    const std::lock_guard lock(mutex_);
    return dealt_.size();
  }
  std::size_t num_found() const {
    const std::lock_guard lock(mutex_);
    return found_;
  }
  bool has_records() const {
    const std::lock_guard lock(mutex_);
    return !records_.empty();
  }
  std::string records() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable there_;
  std::deque<std::size_t> dealt_;
  bool no_more_ = false;
  std::string records_;
  std::size_t found_ = 0;
};

std::size_t ranks_of_this_machine() {
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  int ranks = 1;
  MPI_Comm_size(machine, &ranks);
  MPI_Comm_free(&machine);
  return static_cast<std::size_t>(ranks);
}

/// Whether Open MPI's mpirun or srun (by PMIx) started this process: only then is MPI initialised.
bool started_with_others() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"})
    if (std::getenv(variable) != nullptr) return true;  // NOLINT(concurrency-mt-unsafe): read only
  return false;
}

}  // namespace

Ranks::Ranks() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    cores_ = static_cast<std::size_t>(std::max(1, CPU_COUNT(&mask)));
  if (!started_with_others()) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  cores_ = std::max<std::size_t>(1, cores_ / ranks_of_this_machine());
}

Ranks::~Ranks() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) MPI_Finalize();
}

int Ranks::disagreeing(std::uint64_t sweep) const {
  if (size_ == 1) return -1;
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(size_));
  MPI_Allgather(&sweep, 1, MPI_UINT64_T, hashes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  const auto other = std::ranges::find_if(hashes, [&](auto p) { return p != hashes.front(); });
  return other == hashes.end() ? -1 : static_cast<int>(other - hashes.begin());
}

void Ranks::deal(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings,
                 Journal& journal) const {
  Dispatcher dispatcher(ids, static_cast<std::size_t>(size_), settings.stop);
  const std::size_t before = journal.size();
  BackgroundTask own([&] {
    run_each(
        sweep, std::max<std::size_t>(2, settings.threads) - 1, [&] { return dispatcher.one(); },
        [&](std::span<const RunResult> rows) { journal.add(rows); });
  });
  int working = size_ - 1;
  bool done = false;
  while (!done || working > 0) {
    MPI_Status status;
    bool idle = true;
    while (arrived(MPI_ANY_SOURCE, MPI_ANY_TAG, status)) {
      idle = false;
      const std::string message = receive(status);
      std::string_view records = message;
      if (status.MPI_TAG == ended) {
        --working;
      } else {
        std::uint64_t wanted = 0;
        std::memcpy(&wanted, message.data(), sizeof wanted);
        records.remove_prefix(sizeof wanted);
        if (wanted > 0) {
          const auto chunk = dispatcher.chunk(wanted);
          send({reinterpret_cast<const char*>(chunk.data()), chunk.size_bytes()}, status.MPI_SOURCE,
               assigned);
        }
      }
      journal.add(records);
    }
    if (settings.done != nullptr) settings.done->store(journal.size() - before);
    done = own.ended();
    if (idle) std::this_thread::sleep_for(pause);
  }
  if (settings.done != nullptr) settings.done->store(journal.size() - before);
}

void Ranks::work(const Sweep& sweep, std::size_t threads) const {
  WorkQueue queue;
  BackgroundTask workers([&] {
    run_each(
        sweep, threads, [&] { return queue.next(); },
        [&](std::span<const RunResult> rows) { queue.take(rows); });
  });
  const Clock::time_point start = Clock::now();
  Clock::time_point sent = start;
  bool asked = false, no_more = false;
  const auto report = [&](std::uint64_t wanted) {
    std::string message(sizeof wanted, '\0');
    std::memcpy(message.data(), &wanted, sizeof wanted);
    send(message += queue.records(), 0, found);
    sent = Clock::now();
  };
  while (!workers.ended()) {
    MPI_Status status;
    if (asked && arrived(0, assigned, status)) {
      const std::string message = receive(status);
      std::vector<std::uint64_t> ids(message.size() / sizeof(std::uint64_t));
      if (!ids.empty()) std::memcpy(ids.data(), message.data(), message.size());
      queue.put(ids);
      asked = false;
      no_more = ids.empty();
    }
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    const double rate = static_cast<double>(queue.num_found()) / elapsed.count();
    const auto chunk = std::max<std::uint64_t>(
        threads,
        static_cast<std::uint64_t>(rate * std::chrono::duration<double>(chunk_for).count()));
    // Sends nothing while an answer is in transit, so that the two ends never wait for each other
    // to receive.
    if (!asked && !no_more && queue.left() <= chunk / 2) {
      report(chunk);
      asked = true;
    } else if (!asked && queue.has_records() && Clock::now() - sent >= report_every) {
      report(0);
    }
    std::this_thread::sleep_for(pause);
  }
  send(queue.records(), 0, ended);
}

void Ranks::abort(int code) const {
  if (size_ > 1) MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace baechi
