/// METIS uses the process's rand(): every caller of METIS must hold this lock.
#pragma once
#include <mutex>

namespace baechi::solver {

inline std::mutex& metis_lock() {
  static std::mutex one_at_a_time;
  return one_at_a_time;
}

}  // namespace baechi::solver
