#include "tests/this_build.h"

namespace baechi::testing {

const std::string& source_dir() {
  static const std::string text = BAECHI_SOURCE_DIR;
  return text;
}
const std::string& program() {
  static const std::string text = BAECHI_PROGRAM;
  return text;
}
const std::string& version() {
  static const std::string text = BAECHI_VERSION;
  return text;
}
const std::string& mpirun_program() {
  static const std::string text = BAECHI_MPIRUN;
  return text;
}

}  // namespace baechi::testing
