/// Devices as people type them, on command lines and in Python: a number of one type, or a list.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/device_table.h"
#include "scenarios/read/scenario.h"

namespace baechi {

struct DeviceWords {
  std::string devices;   ///< "4", "rtx_4090,rtx_2080" or "2xrtx_4090+1xrtx_3060"
  std::string kind{};    ///< of a number of devices; "": of the trace
  std::string memory{};  ///< of each device, or a list by device or by group; "": of the type
  std::string prefix{};  ///< of the options' names in messages: "--", or "" in Python
};

/// One group for each item of the list, or more if its devices differ in memory; at least one.
std::vector<DeviceChoice> read_device_words(const DeviceWords& words, Mistakes& mistakes);

}  // namespace baechi
