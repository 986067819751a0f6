/// The process between this program and an external program: starts the external program under
/// limits, and ends it together with all its descendants.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

namespace baechi::external {

/// Limits of a program and all processes that it starts.
struct Limits {
  std::size_t memory = std::size_t{4} << 30U;  ///< bytes: private in each process, resident in all
  std::size_t processes = 256;                 ///< at any time, the program itself included
  std::size_t file_size = std::size_t{1} << 30U;  ///< bytes of each file that is written
  std::size_t open_files = 1024;                  ///< in each process
  std::string hidden{};  ///< a file that it cannot read or write (sandbox.h); "": none
};

/// The supervisor's reports, through a pipe: at most one report of each event, the cause first.
struct Report {
  enum class Event : int {
    not_started,    ///< `value` is the errno of execve
    ended,          ///< `value` is the status that waitpid gave
    out_of_memory,  ///< all processes together went over Limits::memory
    too_many,       ///< there were more processes than Limits::processes
  };
  Event event{};
  int value = 0;
};

/// Data of the supervisor, prepared before the fork. After a fork only async-signal-safe functions
/// may be called, because other threads may have held any lock.
struct Start {
  const char* path = nullptr;
  char* const* argv = nullptr;
  int in = -1, out = -1, err = -1;  ///< become the program's standard streams
  int lifeline = -1;  ///< the read end of a pipe; once its write end closes (by the caller or its
                      ///< death), all processes are ended
  int rules = -1;     ///< of sandbox_without(); -1: none
  int reports = -1;   ///< the write end of a pipe, which takes one Report at a time
  Limits limits{};
};

/// Starts a supervisor, a child of this process, which starts the program. Returns its process id.
/// The supervisor ends once `lifeline` is closed and none of its descendants is left; the caller
/// must wait for it. Throws std::system_error if no process can be created.
pid_t start_supervisor(const Start& start);

}  // namespace baechi::external
