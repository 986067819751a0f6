/// Finds the scenarios, traces and papers that come with the program.
#pragma once
#include <string>

namespace baechi {

/// The folder of the data, the first of these that applies:
/// - the environment variable BAECHI_DATA;
/// - PREFIX/share/baechi-sim, if the program is PREFIX/bin/baechi;
/// - the checkout, if the program is build/PRESET/baechi there;
/// - "".
std::string data_folder();

/// Finds the file or folder `path`, the first of these that exists:
/// - `path` itself, from the working directory;
/// - data_folder()/path;
/// - data_folder()/scenarios/examples/path.yaml, so that "first" is an example's name.
/// Returns `path` if none exists.
std::string with_data_folder(const std::string& path);

}  // namespace baechi
