/// Paths in scenario files, relative to the file, with patterns and environment variables as
/// ${NAME}; and the scenarios, traces and papers that are installed with the program.
#pragma once

#include "sim/options.h"

namespace baechi {

/// The path in `value`, with every ${NAME} replaced by that variable of the environment; a relative
/// path is relative to `base`. Throws InputError, at value.where, if a variable is not
/// set.
std::string resolve_path(const Options::Value& value, const std::string& base);

/// False also where the path cannot be asked.
bool is_file(const std::string& path);

/// True if `text` has a * (any characters except /) or a ? (one such character).
bool is_pattern(std::string_view text);

/// The files that match the pattern, sorted. The parts of the pattern before the first * or ? stay
/// as written, ${NAME} included. Folders and names that begin with a dot do not match. Throws
/// InputError, at pattern.where, if no file matches or more than 100 000 names would have to be
/// checked.
std::vector<std::string> matching_files(const Options::Value& pattern, const std::string& base);

/// The text of a file of at most `most` bytes. Throws InputError beginning with `path` if it cannot
/// be read, is larger, or is known to be of another kind than `wanted` (require_kind()).
std::string read_small_file(const std::string& path, std::size_t most,
                            std::string_view wanted = {});

/// `text` as a file name of at most 120 bytes: letters, digits and "_-=.," stay, all other
/// characters become '_'.
std::string plain_file_name(std::string_view text);

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
