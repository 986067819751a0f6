#include "traces/import/kineto/events.h"

#include <algorithm>

namespace baechi::kineto {
namespace {

constexpr Duration longest = std::chrono::seconds(10'000);
constexpr std::int64_t most_number = std::int64_t{1} << 50;

/// An integer, or one in quotes: ROCm's profiler writes "256".
std::optional<std::int64_t> integer(Json value) {
  std::string_view token = value.token();
  if (token.starts_with('"')) token = token.substr(1, token.size() - 2);
  const auto n = parse_number<std::int64_t>(token);
  return n && *n >= -most_number && *n <= most_number ? n : std::nullopt;
}

/// An integer >= 0; nullopt for -1, which means not applicable.
std::optional<std::int64_t> count(Json value) {
  const auto n = integer(value);
  return n && *n >= 0 ? n : std::nullopt;
}

std::optional<std::int64_t> bytes_of_type(std::string_view type) {
  constexpr std::pair<std::string_view, std::int64_t> sizes[] = {
      {"Byte", 1}, {"Char", 1}, {"Bool", 1},  {"Short", 2},        {"Half", 2},  {"BFloat16", 2},
      {"Int", 4},  {"Long", 8}, {"Float", 4}, {"ComplexFloat", 8}, {"Double", 8}};
  for (const auto& [name, bytes] : sizes)
    if (type == name) return bytes;
  if (type.starts_with("Float8")) return 1;
  return std::nullopt;
}

/// An integer arg and the member that stores it.
struct NumberArgument {
  std::string_view key;
  std::optional<std::int64_t> Event::* value;
};
constexpr NumberArgument numbers[] = {{"Record function id", &Event::record_function_id},
                                      {"External id", &Event::external_id},
                                      {"Sequence number", &Event::sequence},
                                      {"Ev Idx", &Event::index},
                                      {"correlation", &Event::correlation},
                                      {"device", &Event::device},
                                      {"stream", &Event::stream},
                                      {"wait_on_stream", &Event::awaited_stream},
                                      {"wait_on_cuda_event_record_corr_id", &Event::awaited_record},
                                      {"Device Type", &Event::device_type},
                                      {"Addr", &Event::address}};
struct CommunicationCount {
  std::string_view key;
  std::optional<std::int64_t> Communication::* value;
};
constexpr CommunicationCount counts[] = {{"In msg nelems", &Communication::in_elements},
                                         {"Out msg nelems", &Communication::out_elements},
                                         {"Group size", &Communication::ranks},
                                         {"Seq", &Communication::sequence}};

/// Reads the args of an event. Sets `communicates` if they describe a collective.
struct ArgumentReader {
  Event& event;
  Communication communication{};
  bool communicates = false;

  void read(std::string_view key, Json v) {
    if (const auto known = std::ranges::find(numbers, key, &NumberArgument::key);
        known != std::end(numbers)) {
      event.*known->value = integer(v);
    } else if (key == "bytes") {
      event.bytes = count(v);
      if (!event.bytes) v.is_not("a number of bytes");
    } else if (key == "Bytes") {
      event.allocated = integer(v);
      if (!event.allocated && parse_number<std::int64_t>(v.token())) v.is_not("a number of bytes");
    } else {
      read_communication(key, v);
    }
  }
  void read_communication(std::string_view key, Json v) {
    if (const auto known = std::ranges::find(counts, key, &CommunicationCount::key);
        known != std::end(counts)) {
      communication.*known->value = count(v);
    } else if (key == "Collective name") {
      communication.name = v.string();
      communicates = true;
    } else if (key == "Process Group Name") {
      communication.group = v.string();
    } else if (key == "dtype") {
      communication.element_bytes = bytes_of_type(v.string());
    }
  }
};

/// A decimal number of microseconds, exact to the nanosecond: a double is too coarse for times
/// since 1970. nullopt if `text` is not one, or is over 146 years.
std::optional<Duration> exact_time(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto whole = parse_number<std::int64_t>(text.substr(0, point));
  constexpr std::int64_t most = 4'600'000'000'000'000;
  if (!whole || *whole > most || *whole < -most) return std::nullopt;
  std::int64_t ns = 0;
  if (point != std::string_view::npos) {
    std::int64_t unit = 100;
    for (const char c : text.substr(point + 1)) {
      if (c > '9') return std::nullopt;  // an exponent
      ns += unit * (c - '0');
      unit /= 10;
    }
  }
  return Duration{*whole * 1000 + (text.starts_with('-') ? -ns : ns)};
}

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

/// `category`: as written.
Event read_event(Json value, std::size_t line, std::string_view& category) {
  Event event{.line = line, .offset = value.offset()};
  ArgumentReader arguments{event};
  value.entries([&](std::string_view key, Json v) {
    if (key == "name") {
      event.name = v.string();
    } else if (key == "ph") {
      event.phase = v.string();
    } else if (key == "cat") {
      category = v.string();
      event.category = category_of(category);
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
      v.entries([&](std::string_view name, Json argument) { arguments.read(name, argument); });
    }
  });
  if (arguments.communicates) event.communication = std::move(arguments.communication);
  return event;
}

}  // namespace

bool Event::is_timed(JsonFile& file, bool lasts) const {
  if (!start) file.mistake(offset, "an event needs 'ts'");
  if (lasts && !duration) file.mistake(offset, "an event needs 'dur'");
  return start && (duration || !lasts);
}

FileFacts read_events(JsonFile& file, const std::function<void(const Event&)>& use) {
  FileFacts facts;
  bool has_events = false, works = false;
  std::map<std::string, std::size_t> unknown, on_stream;  // category: the first event's byte
  std::size_t line = 0;
  const auto events = [&](Json list) {
    has_events = true;
    list.list([&](Json v) {
      if (!v.is_object()) return v.is_not("an object");
      std::string_view category;
      const Event event = read_event(v, line++, category);
      facts.simulated |= category == "op";
      works |= is_device_work(event.category);
      if (event.category == Category::unknown && event.phase == "X")
        (event.stream ? on_stream : unknown).emplace(category, event.offset);
      use(event);
    });
  };
  Json root = file.root();
  if (root.is_object()) {
    root.entries([&](std::string_view key, Json v) {
      if (key == "traceEvents")
        events(v);
      else if (key == "deviceProperties")
        facts.device = first_name(v);
    });
  } else {
    events(root);
  }
  if (!has_events) file.mistake(0, "no 'traceEvents': not a Kineto or Chrome trace");
  if (!works && !facts.device.empty()) on_stream.merge(unknown);
  for (const auto& [category, offset] : on_stream)
    file.mistake(offset,
                 fmt::format("category '{}' is not known: kernels, copies and fills of a "
                             "recording{} are 'kernel', 'gpu_memcpy', 'gpu_memset'",
                             category, facts.device.empty() ? "" : " of '" + facts.device + "'"));
  file.finish();
  return facts;
}

Category category_of(std::string_view name) {
  using enum Category;
  // Source: libkineto's ActivityType.cpp; output_json.cpp of PyTorch 1.8 to 1.11.
  static const std::map<std::string_view, Category> known{{"", call},
                                                          {"cpu_op", call},
                                                          {"Operator", call},
                                                          {"user_annotation", annotation},
                                                          {"python_function", python},
                                                          {"cuda_runtime", driver},
                                                          {"cuda_driver", driver},
                                                          {"hip_runtime", driver},
                                                          {"xpu_runtime", driver},
                                                          {"xpu_driver", driver},
                                                          {"mtia_runtime", driver},
                                                          {"glow_runtime", driver},
                                                          {"privateuse1_runtime", driver},
                                                          {"privateuse1_driver", driver},
                                                          {"runtime", driver},
                                                          {"Runtime", driver},
                                                          {"kernel", kernel},
                                                          {"Kernel", kernel},
                                                          {"gpu_memcpy", copy},
                                                          {"Memcpy", copy},
                                                          {"gpu_memset", fill},
                                                          {"Memset", fill},
                                                          {"cuda_sync", wait},
                                                          {"xpu_sync", other},
                                                          {"cuda_profiler_range", other},
                                                          {"external_correlation", other},
                                                          {"gpu_user_annotation", other},
                                                          {"Trace", other},
                                                          {"overhead", other},
                                                          {"cpu_instant_event", other},
                                                          {"cuda_event", other}};
  const auto found = known.find(name);
  return found == known.end() ? unknown : found->second;
}

bool is_device_work(Category category) {
  return category == Category::kernel || category == Category::copy || category == Category::fill;
}

}  // namespace baechi::kineto
