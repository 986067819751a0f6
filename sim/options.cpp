#include "sim/options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace baechi {
std::string at(const std::string& where) { return where.empty() ? "" : where + ": "; }

/// Options without an owner only list a component's options. All others drop help and fallback,
/// because a sweep reads them for every point.
const Options::Value* Options::find(const std::string& key, std::string fallback,
                                    std::string_view help, Type type) {
  if (declared_.empty()) declared_.reserve(8);  // few components have more
  if (std::ranges::find(declared_, key, &Declared::key) == declared_.end())
    declared_.push_back(
        {key, std::move(fallback), std::string(owner_.empty() ? help : ""), type, {}});
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

void Options::not_a(const std::string& key, const Value& value, std::string_view what) {
  mistakes_.add(fmt::format(
      "{}{}.{}: {} is not {}", at(value.where), owner_, key,
      value.children.empty() ? fmt::format("'{}'", value.text) : std::string("a list or mapping"),
      what));
}

bool Options::get(const std::string& key, bool fallback, std::string_view help) {
  const Value* v = find(key, fallback ? "true" : "false", help, Type::boolean);
  if (v == nullptr) return fallback;
  if (v->text == "true") return true;
  if (v->text != "false") not_a(key, *v, "true or false");
  return false;
}

std::int64_t Options::get(const std::string& key, std::int64_t fallback, std::string_view help,
                          std::int64_t least, std::int64_t most) {
  const Value* v = find(key, owner_.empty() ? fmt::format("{}", fallback) : "", help, Type::whole);
  if (v == nullptr) return fallback;
  const auto number = parse_number<std::int64_t>(v->text);
  if (number && *number >= least && *number <= most) return *number;
  not_a(key, *v,
        most == std::numeric_limits<std::int64_t>::max()
            ? fmt::format("a whole number >= {}", least)
            : fmt::format("a whole number from {} to {}", least, most));
  return fallback;
}

double Options::get(const std::string& key, double fallback, std::string_view help, double least,
                    double most) {
  const Value* v = find(key, owner_.empty() ? fmt::format("{}", fallback) : "", help, Type::number);
  if (v == nullptr) return fallback;
  const auto number = parse_number<double>(v->text);
  if (number && std::isfinite(*number) && *number >= least && *number <= most) return *number;
  not_a(key, *v,
        most == std::numeric_limits<double>::max()
            ? fmt::format("a number >= {}", least)
            : fmt::format("a number from {} to {}", least, most));
  return fallback;
}

std::string Options::get(const std::string& key, const char* fallback, std::string_view help) {
  const Value* v = find(key, fallback, help, Type::text);
  if (v == nullptr) return fallback;
  if (!v->children.empty()) not_a(key, *v, "a single value");
  return v->text;
}

Bytes Options::get(const std::string& key, Bytes fallback, std::string_view help) {
  const Value* v = find(key, owner_.empty() ? to_text(fallback) : "", help, Type::size);
  if (v == nullptr) return fallback;
  if (const auto bytes = parse_bytes(v->text)) return *bytes;
  not_a(key, *v, "a size such as '8 GiB'" + unit_advice(v->text));
  return fallback;
}

Duration Options::get(const std::string& key, Duration fallback, std::string_view help) {
  const Value* v = find(key, owner_.empty() ? to_text(fallback) : "", help, Type::time);
  if (v == nullptr) return fallback;
  if (const auto time = parse_duration(v->text)) return *time;
  not_a(key, *v, "a time such as '134 us'");
  return fallback;
}

Bandwidth Options::get(const std::string& key, Bandwidth fallback, std::string_view help) {
  const Value* v = find(key, owner_.empty() ? to_text(fallback) : "", help, Type::rate);
  if (v == nullptr) return fallback;
  if (const auto rate = parse_bandwidth(v->text)) return *rate;
  not_a(key, *v, "a rate such as '5.7 GB/s'" + unit_advice(v->text, "/s"));
  return fallback;
}

FlopRate Options::get(const std::string& key, FlopRate fallback, std::string_view help) {
  const Value* v = find(key, owner_.empty() ? to_text(fallback) : "", help, Type::flop_rate);
  if (v == nullptr) return fallback;
  if (const auto rate = parse_flop_rate(v->text)) return *rate;
  not_a(key, *v, "a rate such as '4.7 TFLOP/s'");
  return fallback;
}

std::string Options::get(const std::string& key, const std::vector<std::string>& allowed,
                         std::string_view help) {
  const Value* v = find(key, allowed.front(), help, Type::one_of);
  std::ranges::find(declared_, key, &Declared::key)->allowed = allowed;
  if (v == nullptr) return allowed.front();
  if (std::ranges::find(allowed, v->text) != allowed.end()) return v->text;
  not_a(key, *v,
        fmt::format("one of {}{}", fmt::join(allowed, ", "), did_you_mean(v->text, allowed)));
  return allowed.front();
}

std::string Options::path(const std::string& key, std::string_view help) {
  const Value* v = find(key, "", help, Type::path);
  if (v == nullptr) return "";
  const std::filesystem::path p(v->text);
  return p.is_absolute() || base_.empty() ? p.string()
                                          : (std::filesystem::path(base_) / p).string();
}

void Options::mistake(const std::string& key, std::string_view what) {
  const auto it = values_.find(key);
  mistakes_.add(fmt::format("{}{}.{}: {}", it == values_.end() ? "" : at(it->second.where), owner_,
                            key, what));
}

void Options::renamed(const std::string& key, std::string_view now) {
  if (!values_.contains(key)) return;
  mistake(key, fmt::format("called {}", now));
  values_.erase(key);
}

void Options::respelled(const std::string& key, const std::string& now) {
  if (values_.contains(now)) return renamed(key, now);
  if (auto given = values_.extract(key); !given.empty()) {
    given.key() = now;
    values_.insert(std::move(given));
  }
}

void Options::finish() const {
  Mistakes all = mistakes_;
  for (const auto& [key, value] : values_) {
    if (std::ranges::find(declared_, key, &Declared::key) != declared_.end()) continue;
    std::vector<std::string> known;
    for (const Declared& d : declared_) known.push_back(d.key);
    all.add(fmt::format("{}{} has no option '{}'{} (options: {})", at(value.where), owner_, key,
                        did_you_mean(key, known),
                        known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  all.throw_if_any();
}

}  // namespace baechi
