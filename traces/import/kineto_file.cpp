#include "traces/import/kineto_file.h"

#include "sim/units.h"

namespace baechi {
namespace {

std::string first_name(Json devices) {
  std::string name;
  devices.list([&](Json device) {
    device.entries([&](std::string_view key, Json v) {
      if (key == "name" && name.empty()) name = v.string();
    });
  });
  return name;
}

std::optional<std::int64_t> rank_of(Json information) {
  std::optional<std::int64_t> rank;
  information.entries([&](std::string_view key, Json v) {
    if (key == "rank") rank = parse_number<std::int64_t>(v.token());
  });
  constexpr std::int64_t most = std::int64_t{1} << 50;
  return rank && *rank >= 0 && *rank <= most ? rank : std::nullopt;
}

}  // namespace

KinetoFile read_kineto_file(JsonFile& file, const std::function<void(Json)>& event) {
  KinetoFile read;
  bool has_events = false;
  const auto events = [&](Json list) {
    has_events = true;
    list.list(event);
  };
  Json root = file.root();
  if (root.is_object()) {
    root.entries([&](std::string_view key, Json v) {
      if (key == "traceEvents")
        events(v);
      else if (key == "deviceProperties")
        read.device = first_name(v);
      else if (key == "distributedInfo" && v.is_object())
        read.rank = rank_of(v);
    });
  } else {
    events(root);
  }
  if (!has_events) file.mistake(0, "no 'traceEvents': not a Kineto or Chrome trace");
  file.finish();
  return read;
}

}  // namespace baechi
