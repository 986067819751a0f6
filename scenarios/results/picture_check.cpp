#include "scenarios/results/picture_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace baechi {
namespace {

using JsonValue = nlohmann::json;

constexpr int most_nested = 8;

bool has_numbers(const JsonValue& object, std::initializer_list<const char*> keys) {
  return object.is_object() && std::ranges::all_of(keys, [&](const char* key) {
           return object.contains(key) && object[key].is_number();
         });
}

bool has_text(const JsonValue& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string();
}

/// True if object[key] is a list of whole numbers >= 0, a multiple of `each` of them.
bool has_track(const JsonValue& object, const char* key, std::size_t each) {
  if (!object.contains(key) || !object[key].is_array() || object[key].size() % each != 0)
    return false;
  return std::ranges::all_of(object[key],
                             [](const JsonValue& n) { return n.is_number_unsigned(); });
}

bool is_device(const JsonValue& d) {
  return has_numbers(d, {"limit", "busy", "peak"}) && has_text(d, "name") &&
         has_track(d, "compute", 6) && has_track(d, "send", 5) && has_track(d, "receive", 5) &&
         has_track(d, "memory", 5);
}

bool is_oom(const JsonValue& oom, std::size_t devices) {
  return has_numbers(oom, {"device", "ns", "needed", "free"}) && has_text(oom, "op") &&
         oom["device"].is_number_unsigned() && oom["device"].get<std::size_t>() < devices;
}

/// True if object[key] is a list of [name, number, ...] with `numbers` numbers.
bool has_points(const JsonValue& object, const char* key, std::size_t numbers) {
  if (!object.contains(key) || !object[key].is_array()) return false;
  return std::ranges::all_of(object[key], [&](const JsonValue& point) {
    return point.is_array() && point.size() == numbers + 1 && point[0].is_string() &&
           std::all_of(point.begin() + 1, point.end(),
                       [](const JsonValue& n) { return n.is_number(); });
  });
}

bool is_roof(const JsonValue& roof) {
  return has_text(roof, "device") && has_numbers(roof, {"bandwidth"}) && roof.contains("peaks") &&
         roof["peaks"].is_object() &&
         std::ranges::all_of(roof["peaks"], [](const JsonValue& peak) { return peak.is_number(); });
}

bool is_roofline(const JsonValue& r) {
  return r.is_object() && has_points(r, "ops", 4) && has_points(r, "layers", 3) &&
         r.contains("roofs") && r["roofs"].is_array() && std::ranges::all_of(r["roofs"], is_roof);
}

bool is_picture(const JsonValue& p) {
  if (!has_numbers(p, {"ns", "quantum", "unit"}) || !p.contains("oom") || !p.contains("devices") ||
      !p["devices"].is_array() || !std::ranges::all_of(p["devices"], is_device))
    return false;
  if (p.contains("path") && !has_track(p, "path", 6)) return false;
  if (p.contains("roofline") && !is_roofline(p["roofline"])) return false;
  return p["oom"].is_null() || is_oom(p["oom"], p["devices"].size());
}

}  // namespace

void check_picture(const std::string& picture) {
  // Parsing stops at this depth: freeing deeply nested values would overflow the stack.
  const auto shallow = [](int depth, JsonValue::parse_event_t /*event*/, JsonValue& /*value*/) {
    if (depth > most_nested) throw std::runtime_error("the picture of a step is nested too deeply");
    return true;
  };
  const JsonValue parsed = JsonValue::parse(picture, shallow, /*allow_exceptions=*/false);
  if (!is_picture(parsed)) throw std::runtime_error("the picture of a step is malformed");
}

}  // namespace baechi
