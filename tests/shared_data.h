/// Finds published data: in the repository, or, if it is too large or its licence forbids a copy,
/// in BAECHI_SHARED/data, else in ../shared/data next to the checkout. Without the latter a test
/// skips with a message.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/this_build.h"

namespace baechi::testing {

/// The figures and workloads that are in the repository.
inline std::filesystem::path published_data() {
  return std::filesystem::path(source_dir()) / "validate/published/data";
}

/// The folder outside the repository; nothing, with a message, if there is none, or no `part` in
/// it.
inline std::optional<std::filesystem::path> shared_data(const char* part = "") {
  const char* set = std::getenv("BAECHI_SHARED");  // NOLINT(concurrency-mt-unsafe): read only
  const std::filesystem::path root = set != nullptr
                                         ? std::filesystem::path(set)
                                         : std::filesystem::path(source_dir()) / ".." / "shared";
  if (std::filesystem::is_directory(root / "data" / part)) return root / "data";
  MESSAGE("skipped: no shared data '", std::string(part), "' (BAECHI_SHARED says where it is)");
  return std::nullopt;
}

}  // namespace baechi::testing
