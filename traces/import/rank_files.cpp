#include "traces/import/rank_files.h"

#include <filesystem>
#include <system_error>

#include "sim/text.h"

namespace baechi {

Precision precision_of_type(std::string_view word) {
  const std::string text = lower(word);
  constexpr std::pair<std::string_view, Precision> words[] = {
      {"bf16", Precision::bf16},    {"bfloat16", Precision::bf16}, {"f16", Precision::fp16},
      {"float16", Precision::fp16}, {"half", Precision::fp16},     {"f8", Precision::fp8},
      {"float8", Precision::fp8},   {"f4", Precision::fp4},        {"float4", Precision::fp4}};
  for (const auto& [part, precision] : words)
    if (text.find(part) != std::string::npos) return precision;
  return Precision::fp32;
}

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The name with its numbers padded by zeros, so that "2" comes before "10".
std::string sortable(std::string_view name) {
  constexpr std::size_t width = 20;
  std::string text;
  while (!name.empty()) {
    std::size_t digits = 0;
    while (digits < name.size() && is_digit(name[digits])) ++digits;
    if (digits > 0 && digits < width) text.append(width - digits, '0');
    const std::size_t taken = std::max<std::size_t>(1, digits);
    text += name.substr(0, taken);
    name.remove_prefix(taken);
  }
  return text;
}

}  // namespace

std::vector<std::string> numbered_files(const std::string& pattern) {
  namespace fs = std::filesystem;
  const fs::path given(pattern);
  const std::string last = given.filename().string();
  std::vector<std::string> found;
  std::error_code error;
  const fs::path folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        Wildcard{last}.matches(name) && entry.is_regular_file(error))
      found.push_back((given.parent_path() / name).string());
  std::ranges::sort(found, {}, [](const std::string& p) {
    return std::pair(sortable(fs::path(p).filename().string()), p);
  });
  return found;
}

std::vector<std::string> rank_files(const std::string& path, Options& options) {
  namespace fs = std::filesystem;
  const std::string pattern =
      options.get("ranks", "",
                  "files of all ranks: a name with * for the rank's number, such as rank*.json, in "
                  "the folder of this file; default: this file is the only rank");
  if (pattern.empty()) return {path};
  const fs::path given(path);
  std::vector<std::string> found = numbered_files((given.parent_path() / pattern).string());
  if (std::ranges::find(found, path) == found.end())
    options.mistake(
        "ranks",
        fmt::format(
            "'{}' does not match {} itself{}", pattern, given.filename().string(),
            pattern.find('/') == std::string::npos
                ? ""
                : ": give file names without a folder, they are in the folder of this file"));
  return found;
}

}  // namespace baechi
