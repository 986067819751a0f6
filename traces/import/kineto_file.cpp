#include "traces/import/kineto_file.h"

#include <algorithm>

namespace baechi {
namespace {

constexpr Duration longest = std::chrono::seconds(10'000);

Duration time(Json value) {
  if (const auto exact = exact_time(value.token())) return *exact;
  const auto us = parse_number<double>(value.token());  // 1e3
  const auto time = us ? from_us(*us) : std::nullopt;
  if (!time) value.is_not("a time in microseconds, below 146 years");
  return time.value_or(Duration{});
}

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

KinetoEvent read_event(Json value,
                       const std::function<void(std::string_view key, Json)>& argument) {
  KinetoEvent event;
  event.offset = value.offset();
  value.entries([&](std::string_view key, Json v) {
    if (key == "name") {
      event.name = v.string();
    } else if (key == "ph") {
      event.phase = v.string();
    } else if (key == "cat") {
      event.category = v.string();
    } else if (key == "pid") {
      event.process = v.token();
    } else if (key == "tid") {
      event.thread = v.token();
    } else if (key == "ts") {
      event.start = time(v);
    } else if (key == "dur") {
      event.duration = time(v);
      if (*event.duration < Duration{} || *event.duration > longest)
        v.is_not("a duration of at most ten thousand seconds, in microseconds");
    } else if (key == "args" && v.is_object()) {
      v.entries(argument);
    }
  });
  return event;
}

}  // namespace

KinetoFile read_kineto_file(JsonFile& file,
                            const std::function<void(std::string_view key, Json)>& argument,
                            const std::function<void(const KinetoEvent&)>& event) {
  KinetoFile read;
  bool has_events = false;
  const auto events = [&](Json list) {
    has_events = true;
    list.list([&](Json v) {
      if (!v.is_object()) return v.is_not("an object");
      event(read_event(v, argument));
    });
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

bool is_driver_call(std::string_view category) {
  constexpr std::string_view names[] = {"cuda_runtime", "cuda_driver", "hip_runtime", "Runtime",
                                        "runtime",      "xpu_runtime", "mtia_runtime"};
  return std::ranges::find(names, category) != std::end(names);
}

bool is_device_work(std::string_view category) {
  return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
}

std::optional<Duration> exact_time(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto whole = parse_number<std::int64_t>(text.substr(0, point));
  constexpr std::int64_t most = 4'600'000'000'000'000;
  if (!whole || *whole > most || *whole < -most) return std::nullopt;
  std::int64_t ns = 0;
  if (point != std::string_view::npos) {
    std::int64_t unit = 100;
    for (const char c : text.substr(point + 1)) {
      if (c < '0' || c > '9') return std::nullopt;
      ns += unit * (c - '0');
      unit /= 10;
    }
  }
  return Duration{*whole * 1000 + (text.starts_with('-') ? -ns : ns)};
}

}  // namespace baechi
