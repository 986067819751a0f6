#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "scenarios/read/choice_text.h"
#include "sim/error.h"
#include "tests/message.h"

using namespace baechi;
using baechi::testing::message;

namespace {

/// "2 rtx_4090 24564.00 MiB; ..." of the flags as typed.
std::string groups(const DeviceWords& words) {
  Mistakes mistakes;
  std::vector<std::string> all;
  for (const DeviceChoice& d : read_device_words(words, mistakes))
    all.push_back(fmt::format("{} {} {}", d.count, d.kind, d.memory.count >> 20));
  mistakes.throw_if_any();
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace

TEST_SUITE("devices") {
  TEST_CASE("devices are a number of one type or a list of types, memory one size or a list") {
    const auto mib = [](const char* kind) {
      return built_in_devices().devices.at(kind)->memory.count >> 20;
    };
    const std::string two =
        fmt::format("1 rtx_4090 {}; 1 rtx_2080 {}", mib("rtx_4090"), mib("rtx_2080"));
    CHECK(groups({.devices = "rtx_4090,rtx_2080"}) == two);
    CHECK(groups({.devices = "1xrtx_4090+1xrtx_2080"}) == two);
    CHECK(groups({.devices = "2xrtx_4090, 1xrtx_2080", .memory = "24G,8GiB"}) ==
          "2 rtx_4090 24576; 1 rtx_2080 8192");
    // One size for each of three devices: two GPUs of one type differ, so they are two groups.
    CHECK(groups({.devices = "2xrtx_4090,1xrtx_2080", .memory = "24GB,20GiB,8G"}) ==
          "1 rtx_4090 22888; 1 rtx_4090 20480; 1 rtx_2080 8192");
    CHECK(groups({.devices = "4", .kind = "mine", .memory = "8 GiB"}) == "4 mine 8192");
    CHECK(groups({.devices = "2xmine,1xyours", .memory = "1M"}) == "2 mine 1; 1 yours 1");
    CHECK(groups({.devices = "2", .memory = "1M,2M"}) == "1  1; 1  2");
  }

  TEST_CASE("an unknown GPU is answered with the nearest names, not with all") {
    const auto answer = [](const DeviceWords& words) {
      return message<InputError>([&] { groups(words); });
    };
    for (const char* typed : {"RTX4090", "4090"}) {
      const std::string text =
          answer({.devices = typed == std::string("4090") ? "1x4090" : typed, .prefix = "--"});
      CAPTURE(text);
      CHECK(text.find("is no device type; the nearest are rtx_4090, ") != text.npos);
      CHECK(text.find("k80") == text.npos);
    }
    CHECK(answer({.devices = "0xrtx_4090", .prefix = "--"}) ==
          "--devices: 0: a cluster has at least one device and at most 1024");
    CHECK(answer({.devices = "rtx_4090,rtx_4090", .kind = "h100", .prefix = "--"}) ==
          "--kind: --devices is a list, which names the types");
    CHECK(answer({.devices = "3", .kind = "rtx_4090", .memory = "1G,2G", .prefix = "--"}) ==
          "--memory: 2 sizes for 3 devices");
    CHECK(answer({.devices = "1xrtx_4090", .memory = "24 gigs", .prefix = ""}) ==
          "memory: '24 gigs' is not a size such as '8 GiB' or 24G");
  }
}
