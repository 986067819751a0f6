/// Files of measurements that a test writes, and the blocks of them.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sim/find_entry.h"
#include "tests/temporary_folder.h"
#include "validate/published/published.h"

namespace baechi::testing {

/// A folder with files of one source.
class Measurements {
 public:
  explicit Measurements(const std::string& source) : source_("measured/" + source) {
    std::filesystem::create_directories(folder_.file(source_));
  }
  void write(const std::string& file, const std::string& text) const {
    folder_.write(source_ + "/" + file, text);
  }
  std::optional<validate::Comparison> compared(std::string_view block) const {
    return find_entry(validate::published_blocks(), "block", block).compare(data());
  }
  std::string data() const { return folder_.file(""); }  ///< as --data names it

 private:
  TemporaryFolder folder_;
  std::string source_;
};

}  // namespace baechi::testing
