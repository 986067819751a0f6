/// Where the scenarios, traces and papers are that come with the program.
#pragma once
#include <string>

namespace baechi {

/// PREFIX/share/baechi-sim if the program is PREFIX/bin/baechi; the checkout if it is
/// build/PRESET/baechi; "" otherwise. The environment's BAECHI_DATA goes before both.
std::string data_folder();

/// `path` if it exists from the working directory or is not found anywhere; else
/// data_folder()/path; else, if `path` is a bare name such as "first", the
/// scenarios/examples/first.yaml there.
std::string with_data_folder(const std::string& path);

}  // namespace baechi
