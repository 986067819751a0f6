#include "sim/collectives/collective_models.h"
#include "sim/find_entry.h"

namespace baechi {

MakeCollectiveModel make_ring, make_tree, make_hierarchical, make_nccl, make_line, make_table,
    make_steps;

std::span<const CollectiveModelEntry> collective_models() {
  static constexpr CollectiveModelEntry table[] = {
      {"ring", "one ring through all ranks, as fast as its worst link",
       "Patarasuk, Yuan, JPDC 2009", make_ring},
      {"tree", "a binary tree: few steps, for small buffers", "Thakur et al., IJHPCA 2005",
       make_tree},
      {"hierarchical", "inside the nodes, between them over all NICs, inside again",
       "Cho et al., BlueConnect, MLSys 2019", make_hierarchical},
      {"nccl", "the fastest of ring and tree with NCCL's three protocols",
       "NCCL, src/graph/tuning.cc", make_nccl},
      {"line", "latency and bandwidth as fitted to measured all_reduces, by number of ranks",
       "Hockney, Parallel Computing 1994", make_line},
      {"table", "measured all_reduces, interpolated", "a CSV with ranks,bytes,us", make_table},
      {"steps", "each send of the ring simulated over the links: the slow reference model",
       "sim/engine/simulation.h", make_steps},
  };
  return table;
}

std::shared_ptr<const CollectiveModel> make_collectives(std::string_view name, Options options,
                                                        const std::string& where) {
  const CollectiveModelEntry& entry =
      find_entry(collective_models(), "collective model", name, where);
  auto model = entry.make(options);
  options.finish();
  return model;
}

std::shared_ptr<const CollectiveModel> make_collectives(const Options::Value& value) {
  if (value.children.empty()) return make_collectives(value.text, Options(value.text), value.where);
  std::string name;
  std::map<std::string, Options::Value> options;
  for (const auto& [key, child] : value.children) {
    if (key == "model")
      name = child.text;
    else
      options.emplace(key, child);
  }
  if (name.empty())
    throw InputError(at(value.where) +
                     "collectives: not NAME or {model: NAME, option: value, ...}");
  return make_collectives(name, Options(name, std::move(options)), value.where);
}

std::shared_ptr<const CollectiveModel> make_ring(Options&) {
  return ring_collectives();
}

}  // namespace baechi
