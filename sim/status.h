/// How a run ended, and the words for it in files, tables and JSON.
#pragma once
#include <cstdint>

#include "sim/names.h"

namespace baechi {

enum class Status : std::uint8_t { ok, oom, infeasible, error };
constexpr auto names_of(Status) {
  return std::to_array<Named<Status>>({{Status::ok, "ok"},
                                       {Status::oom, "oom"},
                                       {Status::infeasible, "infeasible"},
                                       {Status::error, "error"}});
}

}  // namespace baechi
