#include "tests/golden/record.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace baechi::golden {
namespace {

constexpr std::size_t printed_per_record = 10;

std::string shown(const json& value) {
  std::string text = value.dump();
  if (text.size() > 120) text = text.substr(0, 117) + "...";
  return text;
}

}  // namespace

const json& at(const json& object, const char* field) {
  if (!object.is_object() || !object.contains(field))
    throw InputError(fmt::format("no field '{}' in {}", field, shown(object)));
  return object[field];
}

std::size_t Report::skipped() const {
  std::size_t sum = 0;
  for (const auto& [reason, count] : skipped_) sum += count;
  return sum;
}

void Report::skip(const std::string& reason, std::size_t count) {
  if (count > 0) skipped_[reason] += count;
}

void Report::print_summary() const {
  for (const auto& [reason, count] : skipped_)
    out_ << fmt::format("skipped: {} ({})\n", reason, count);
  out_ << fmt::format("{} passed, {} failed, {} skipped\n", passed_, failed_, skipped());
}

const json& Record::input(const char* field) {
  seen_.insert(field);
  if (!has(field)) throw InputError(fmt::format("{}: no field '{}'", name_, field));
  return expected_[field];
}

void Record::leave_out(std::initializer_list<const char*> fields) {
  seen_.insert(fields.begin(), fields.end());
}

void Record::equal(const char* field, const json& got) {
  if (!has(field)) return;
  seen_.insert(field);
  compare(field, expected_[field], got);
}

void Record::near(const char* field, double got, double tolerance) {
  if (!has(field)) return;
  seen_.insert(field);
  const json& expected = expected_[field];
  if (expected.is_number() &&
      std::abs(expected.get<double>() - got) <= tolerance * std::max(1.0, std::abs(got)))
    return;
  mismatch(field, shown(expected), fmt::format("{}", got));
}

void Record::compare(const std::string& path, const json& expected, const json& got) {
  if (expected == got) return;
  if (expected.is_array() && got.is_array()) {
    if (expected.size() != got.size())
      mismatch(path + ".length", fmt::format("{}", expected.size()), fmt::format("{}", got.size()));
    for (std::size_t i = 0; i < std::min(expected.size(), got.size()); ++i)
      compare(fmt::format("{}[{}]", path, i), expected[i], got[i]);
  } else if (expected.is_object() && got.is_object()) {
    for (const auto& [key, value] : expected.items())
      compare(path + "." + key, value, got.contains(key) ? got[key] : json());
    for (const auto& [key, value] : got.items()) {
      if (!expected.contains(key)) mismatch(path + "." + key, "nothing", shown(value));
    }
  } else {
    mismatch(path, shown(expected), shown(got));
  }
}

void Record::mismatch(std::string_view field, const std::string& expected, const std::string& got) {
  if (++mismatches_ > printed_per_record) return;
  report_.out_ << fmt::format("{}: {}: {}: expected {}, got {}\n", file_, name_, field, expected,
                              got);
}

void Record::finish() {
  for (const auto& [field, value] : expected_.items()) {
    if (!seen_.contains(field)) mismatch(field, "a field known here", shown(value));
  }
  if (mismatches_ > printed_per_record)
    report_.out_ << fmt::format("{}: {}: {} more mismatches\n", file_, name_,
                                mismatches_ - printed_per_record);
  ++(mismatches_ == 0 ? report_.passed_ : report_.failed_);
}

}  // namespace baechi::golden
