/// Finished runs in an append-only file: a killed process loses only the runs in flight.
#pragma once
#include <mutex>

#include "scenarios/run/sweep.h"

namespace baechi {

/// Appends the record of `row` in the journal's format: length, hash, key, id and results. Omits
/// values that the sweep has, the picture, and the peaks of single devices.
void append_record(std::string& records, const RunResult& row);

/// Thread-safe.
class Journal {
 public:
  /// Opens or creates the file at `path`, and its folder if needed. With `keep`, its rows are kept,
  /// up to the place where the file is torn. If another process has the file open, waits for up to
  /// `wait`, with a message on standard error. Throws InputError
  /// if the other process does not end in that time,
  /// if there are rows and `keep` is not set,
  /// if there are rows whose keys the sweep does not have;
  /// in these cases the file is not changed or created.
  Journal(std::string path, const Sweep& sweep, bool keep, std::chrono::milliseconds wait = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Writes to the file before it returns, and to the disk within some seconds. Skips rows that it
  /// has. Throws std::runtime_error if the disk is full.
  void add(std::span<const RunResult> rows);
  void add(std::string_view records);  ///< complete records, of runs of the sweep

  bool has(std::size_t id) const;
  std::size_t size() const;  ///< number of rows
  /// Nothing if there is no such row. Throws std::runtime_error if the file cannot be read.
  std::optional<RunResult> row(std::size_t id) const;
  void visit(const VisitRow& visit) const;  ///< all rows, by id

  void remove();  ///< removes the file, once its rows are stored elsewhere

 private:
  void open_locked(std::chrono::milliseconds wait);
  bool lock(std::chrono::milliseconds wait) const;
  bool is_at_path() const;
  std::size_t scan(const std::function<bool(std::uint64_t key)>& take_record);
  void load();
  void refuse_rows();
  void write(std::string_view bytes);
  void to_disk();
  std::string record(std::uint64_t at) const;

  const std::string path_;
  const Sweep& sweep_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> at_;  // [runs]: offset of the row in the file; 0: none
  std::uint64_t end_ = 0;          // of the file
  std::size_t size_ = 0;
  mutable std::string window_;  // a part of the file, from window_at_ on
  mutable std::uint64_t window_at_ = 0;
  std::chrono::steady_clock::time_point on_disk_ = std::chrono::steady_clock::now();
};

}  // namespace baechi
