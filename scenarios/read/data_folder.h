/// Finds the scenarios, traces and papers that are installed with the program.
#pragma once
#include <string>

namespace baechi {

/// The folder of the data, the first of these that applies:
/// - the environment variable BAECHI_DATA;
/// - PREFIX/share/baechi-sim, if the program is PREFIX/bin/baechi;
/// - the checkout, if the program, or the Python module, is in build/PRESET there;
/// - baechi_data/share/baechi-sim in the Python module's folder, for wheels;
/// - "".
std::string data_folder();

/// Finds the file or folder `path`, the first of these that exists:
/// - `path` itself, from the working directory;
/// - data_folder()/path;
/// - data_folder()/scenarios/examples/path.yaml, so that "first" names an example.
/// Returns `path` if none exists.
std::string with_data_folder(const std::string& path);

}  // namespace baechi
