/// Components with options, and devices, as text: on command lines and in Python.
#pragma once

#include "scenarios/read/device_table.h"
#include "scenarios/read/scenario.h"

namespace baechi {

/// Parses "NAME" or "NAME:key=value,key=value", the value of --placer and --importer. In
/// "exec:PATH,key=value" the name is "exec:PATH". Messages name `flag` as the place of a mistake.
/// Throws InputError if a part is not key=value or a key is given twice.
Choice parse_choice(std::string_view text, const std::string& flag);

/// Parses "key=value" texts as the options of the component `owner`. Throws InputError for the same
/// mistakes as parse_choice().
Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag);

/// Splits `text` at every comma outside brackets.
std::vector<std::string> split_at_commas(std::string_view text);

/// `text` as an argument in a shell.
std::string in_shell(std::string text);

struct DeviceWords {
  std::string devices;   ///< "4", "rtx_4090,rtx_2080" or "2xrtx_4090+1xrtx_3060"
  std::string kind{};    ///< of a number of devices; "": of the trace
  std::string memory{};  ///< of each device, or a list by device or by group; "": of the type
  std::string prefix{};  ///< of the options' names in messages: "--", or "" in Python
};

/// One group for each item of the list, or more if its devices differ in memory; at least one.
std::vector<DeviceChoice> read_device_words(const DeviceWords& words, Mistakes& mistakes);

/// A host for weights that wait; "" where nothing is said.
struct HostWords {
  std::string memory, link, disk;
  std::string memory_flag, link_flag;  ///< in messages
};

/// Adds a host whose memory holds weights that wait, with a way to it for each device, which has
/// lanes of its own, and a disk behind it. Adds nothing without memory.
void add_host(const HostWords& words, ClusterChoice& cluster, Mistakes& mistakes);

/// The link of a disk of such a rate, if one is said: a read takes 100 us besides, as on NVMe.
std::optional<Link> read_disk(const std::string& text, Mistakes& mistakes);
constexpr const char* disk_needs_host =
    "--disk needs --cpu-memory, by way of which its weights come";

}  // namespace baechi
