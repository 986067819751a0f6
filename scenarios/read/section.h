/// Helpers of the readers of sections, for the files *_section.cpp.
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "scenarios/read/sections.h"

namespace baechi {

/// The options of `section`, parsed by `read`. Throws InputError on unknown options or bad values.
auto read_section(const Options::Value& section, const char* owner, auto read) {
  Options o = options_of(section, owner, "");
  auto result = read(o);
  o.finish();
  return result;
}

/// Adds a mistake for each of `keys` that `section` lacks.
void need(const Options::Value& section, std::string_view owner,
          std::initializer_list<std::string_view> keys, Mistakes& mistakes);

/// The keys that `read` declares.
std::vector<Options::Declared> keys_of_reader(auto read) {
  Options o;
  read(o);
  return o.declared();
}

/// The parts of section_keys().
std::vector<SectionKeys> cluster_section_keys();
SectionKeys calibration_section_keys();
std::vector<SectionKeys> engine_section_keys();  ///< engine, profile
SectionKeys codesign_section_keys();
SectionKeys report_section_keys();

}  // namespace baechi
