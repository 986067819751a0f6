/// The input files of Piper's planner: graphs with times and sizes per degree of tensor parallelism
/// and mode. The importer uses one degree and one mode of each node, planners use all.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

class JsonFile;

/// Costs of a node under one degree of tensor parallelism, with or without recomputation.
struct PiperMode {
  std::string id;           ///< "vanilla", "activation recomp"
  double time = 0.0;        ///< timePerSample: per micro-batch, forward and backward
  double weights = 0.0;     ///< parameterSize: bytes per device
  double per_batch = 0.0;   ///< memoryUsageA: bytes per device and micro-batch in flight
  double stays = 0.0;       ///< memoryUsageB: bytes per device that are always resident
  std::vector<double> in;   ///< [PiperNode::in] syncTimeFw: extra bytes if the edge is cut
  std::vector<double> out;  ///< [PiperNode::out] syncTimeBw
};

struct PiperNode {
  std::int64_t id = 0;
  std::string name{};  ///< may be empty
  std::string op{};    ///< unique: the name, "n<id>", "name#<id>"
  std::map<std::int64_t, std::vector<PiperMode>> modes{};  ///< TMPCs: by degree; one or two modes
  std::vector<std::size_t> in{}, out{};                    ///< indices of PiperFile::edges
  std::size_t offset = 0;                                  ///< byte in the file
};

struct PiperEdge {
  std::size_t from = 0, to = 0;  ///< indices of PiperFile::nodes
  double bytes = 0.0;            ///< communicationCost
};

struct PiperFile {
  std::int64_t devices = 1;        ///< maxDevices, all identical
  double memory = 0.0;             ///< maxMemoryPerDevice, bytes
  double bandwidth = 0.0;          ///< of each device to all others, bytes/s
  std::int64_t micro_batches = 1;  ///< mbsInBatch: per batch
  std::vector<PiperNode> nodes;    ///< in the order of the file
  std::vector<PiperEdge> edges;
};

/// Reads the format of the repository msr-fiddle/piper: maxDevices, maxMemoryPerDevice, bandwidth,
/// mbsInBatch; nodes {id, name, TMPCs}, where TMPCs holds, per degree of tensor parallelism, at
/// most two modes {id, timePerSample, parameterSize, memoryUsageA, memoryUsageB, syncTimeFw,
/// syncTimeBw}; edges {sourceId, destId, communicationCost}. Adds to `json`'s mistakes: a missing
/// or negative value, or one of another type; a duplicate id, edge or mode; an edge to an unknown
/// node; traffic that is missing, or is of an unknown edge. The caller calls json.finish(). Source:
/// Tarnawski, Narayanan, Phanishayee, "Piper", NeurIPS 2021, and its repository.
PiperFile read_piper_file(JsonFile& json);

}  // namespace baechi
