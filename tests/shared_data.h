/// Workloads that other projects published, kept outside the repo: tests that need them look where
/// BAECHI_SHARED points, else beside the checkout, and say so when they skip.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/this_build.h"

namespace baechi::testing {

inline std::optional<std::filesystem::path> shared_data() {
  const char* set = std::getenv("BAECHI_SHARED");  // NOLINT(concurrency-mt-unsafe): read only
  const std::filesystem::path root = set != nullptr
                                         ? std::filesystem::path(set)
                                         : std::filesystem::path(source_dir()) / ".." / "shared";
  if (std::filesystem::is_directory(root / "data")) return root / "data";
  MESSAGE("skipped: no shared data (set BAECHI_SHARED)");
  return std::nullopt;
}

}  // namespace baechi::testing
