/// Piper's inputs as they stand in the file: graphs with times and sizes per degree of tensor
/// parallelism, in modes. The importer takes one degree and one mode of each node, planners take
/// all.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

class JsonFile;

/// One way to run a node on a number of devices that share its tensors.
struct PiperMode {
  std::string id;           ///< "vanilla", "activation recomp"
  double time = 0.0;        ///< timePerSample: per micro-batch, forward and backward
  double weights = 0.0;     ///< parameterSize: of one of the devices
  double per_batch = 0.0;   ///< memoryUsageA: of one device for each micro-batch in flight
  double stays = 0.0;       ///< memoryUsageB: memory of one device besides
  std::vector<double> in;   ///< [PiperNode::in] syncTimeFw: more bytes of an edge that is cut
  std::vector<double> out;  ///< [PiperNode::out] syncTimeBw
};

struct PiperNode {
  std::int64_t id = 0;
  std::string name{};  ///< may be empty
  std::string op{};    ///< unique: the name, "n<id>", "name#<id>"
  std::map<std::int64_t, std::vector<PiperMode>> modes{};  ///< TMPCs: by degree; one or two modes
  std::vector<std::size_t> in{}, out{};                    ///< its edges
  std::size_t offset = 0;                                  ///< in the file
};

struct PiperEdge {
  std::size_t from = 0, to = 0;  ///< places in PiperFile::nodes
  double bytes = 0.0;            ///< communicationCost
};

struct PiperFile {
  std::int64_t devices = 1;        ///< maxDevices, all alike
  double memory = 0.0;             ///< maxMemoryPerDevice, bytes
  double bandwidth = 0.0;          ///< of each device to all others together; bytes/s
  std::int64_t micro_batches = 1;  ///< mbsInBatch: in a batch
  std::vector<PiperNode> nodes;    ///< in the order of the file
  std::vector<PiperEdge> edges;
};

/// Reads the format of the repository msr-fiddle/piper: maxDevices, maxMemoryPerDevice, bandwidth,
/// mbsInBatch; nodes {id, name, TMPCs}, where TMPCs holds, per degree of tensor parallelism, at
/// most two modes {id, timePerSample, parameterSize, memoryUsageA, memoryUsageB, syncTimeFw,
/// syncTimeBw}; edges {sourceId, destId, communicationCost}. Adds to `json`'s mistakes: a value
/// that is missing, negative or of another type; an id, edge or mode that is there twice; an end
/// that is no node; traffic of an edge that the node does not have, or no traffic of one it has.
/// The caller ends with json.finish(). Source: Tarnawski, Narayanan, Phanishayee, "Piper", NeurIPS
/// 2021, and its repository.
PiperFile read_piper_file(JsonFile& json);

}  // namespace baechi
