/// The names of phases in files.
#pragma once
#include "sim/graph/op_graph.h"
#include "sim/names.h"

namespace baechi {

constexpr auto names_of(Phase) {
  return std::to_array<Named<Phase>>(
      {{Phase::forward, "forward"}, {Phase::backward, "backward"}, {Phase::update, "update"}});
}

}  // namespace baechi
