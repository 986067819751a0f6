/// The folders of this build's sources and programs.
#pragma once
#include <string>

namespace baechi::testing {

const std::string& source_dir();      ///< the root of the checkout
const std::string& program();         ///< build/PRESET/baechi
const std::string& version();         ///< what `baechi --version` prints after the name
const std::string& mpirun_program();  ///< "" where the build has no MPI

}  // namespace baechi::testing
