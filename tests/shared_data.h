/// Finds published workloads of other projects, which are kept outside the repository. A test that
/// needs them looks in BAECHI_SHARED, or next to the checkout if BAECHI_SHARED is not set. Without
/// the workloads the test skips and says so. `./dev data` fetches what is public on GitHub.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/this_build.h"

namespace baechi::testing {

/// The folder of the workloads; nothing, with a message, if there is none, or no `part` in it.
inline std::optional<std::filesystem::path> shared_data(const char* part = "") {
  const char* set = std::getenv("BAECHI_SHARED");  // NOLINT(concurrency-mt-unsafe): read only
  const std::filesystem::path root = set != nullptr
                                         ? std::filesystem::path(set)
                                         : std::filesystem::path(source_dir()) / ".." / "shared";
  if (std::filesystem::is_directory(root / "data" / part)) return root / "data";
  MESSAGE("skipped: no shared data '", std::string(part),
          "' (./dev data fetches what is public; BAECHI_SHARED says where it is)");
  return std::nullopt;
}

}  // namespace baechi::testing
