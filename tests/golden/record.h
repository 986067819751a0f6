/// Counts the records of the goldens that pass, fail or are skipped, with reasons.
#pragma once
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

namespace baechi::golden {

using nlohmann::json;

/// Prints mismatches as they are found: file, record, field, expected, got.
class Report {
 public:
  explicit Report(std::ostream& out) : out_(out) {}

  std::size_t passed() const { return passed_; }
  std::size_t failed() const { return failed_; }
  std::size_t skipped() const;
  /// `count` records that cannot be replayed, and the reason: one line per reason in
  /// print_summary().
  void skip(const std::string& reason, std::size_t count = 1);
  /// "skipped ...: K" for each reason, then the last line, "N passed, M failed, K skipped".
  void print_summary() const;

 private:
  friend class Record;
  std::ostream& out_;
  std::size_t passed_ = 0;
  std::size_t failed_ = 0;
  std::map<std::string, std::size_t> skipped_;
};

/// One record: a JSON object, every field of which is compared, used as input, or explicitly
/// ignored. Any other field is a mismatch, so that no field is skipped silently.
class Record {
 public:
  /// `expected` outlives the record.
  Record(Report& report, std::string_view file, std::string_view name, const json& expected)
      : report_(report), file_(file), name_(name), expected_(expected) {}
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  bool has(const char* field) const { return expected_.contains(field); }
  /// The field's value, which is used and not compared. Throws InputError if there is none.
  const json& input(const char* field);
  /// Ignores metadata, and fields that are replayed as records of their own.
  void leave_out(std::initializer_list<const char*> fields);

  /// Compares the field, if the record has it.
  void equal(const char* field, const json& got);
  /// The same for numbers, up to a relative (below 1: absolute) difference.
  void near(const char* field, double got, double tolerance);
  /// Adds a mismatch.
  void mismatch(std::string_view field, const std::string& expected, const std::string& got);
  /// Counts the record. To be called once, last.
  void finish();

 private:
  void compare(const std::string& path, const json& expected, const json& got);

  Report& report_;
  std::string file_;
  std::string name_;
  const json& expected_;
  std::set<std::string, std::less<>> seen_;
  std::size_t mismatches_ = 0;
};

/// `object[field]`, or InputError naming both.
const json& at(const json& object, const char* field);

}  // namespace baechi::golden
