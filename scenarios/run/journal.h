/// Finished runs in a file that only grows: a process that is killed loses those in flight alone.
#pragma once
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/run/sweep.h"

namespace baechi {

/// A row as a journal has it: its key, its id and what was found, by its length and a hash. What
/// the plan knows of it, its picture and the peaks of single devices are left out.
void append_record(std::string& records, const RunResult& row);

/// Safe from several threads.
class Journal {
 public:
  /// Makes the file at `path`, in a folder that is made if need be. With `keep`, rows that are
  /// there stay if the plan has their keys, up to where the file is torn; else they are lost.
  /// Throws InputError if another process has it open, or if there are rows to keep that are not of
  /// the plan.
  Journal(std::string path, const Sweep& sweep, bool keep);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Written before it returns; on the disk itself within some seconds. A row that is known already
  /// is left out. Throws std::runtime_error if the disk is full.
  void add(std::span<const RunResult> rows);
  void add(std::string_view records);  ///< whole ones, of runs of the plan

  bool has(std::size_t id) const;
  std::size_t size() const;  ///< runs that it has
  /// Throws std::runtime_error where the file cannot be read.
  std::optional<RunResult> row(std::size_t id) const;
  void visit(const VisitRow& visit) const;  ///< all, by id

  void remove();  ///< the file: what it has stands elsewhere

 private:
  void lock() const;
  void load();
  void write(std::string_view bytes);
  void to_disk();

  const std::string path_;
  const Sweep& sweep_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> at_;  // [runs]: where in the file the row is; 0: nowhere
  std::uint64_t end_ = 0;          // of the file
  std::size_t size_ = 0;
  std::chrono::steady_clock::time_point on_disk_ = std::chrono::steady_clock::now();
};

}  // namespace baechi
