/// METIS draws its random numbers by the process's rand(): whoever calls it holds this.
#pragma once
#include <mutex>

namespace baechi::solver {

inline std::mutex& metis_lock() {
  static std::mutex one_at_a_time;
  return one_at_a_time;
}

}  // namespace baechi::solver
