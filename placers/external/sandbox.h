/// A file that a program can neither read nor write, and processes that it cannot signal, by the
/// kernel's Landlock.
#pragma once
#include <string>

#include "placers/external/pipes.h"

namespace baechi::external {

/// What this kernel's Landlock keeps a program from.
enum class Guard { nothing, files, files_and_signals };
Guard kernel_guard();

/// Rules for enter_sandbox(): everything that exists now is open to the program, but `hidden`, and
/// the folders above it cannot be changed. Not open if `hidden` is "" or there is no Landlock. The
/// program can read another copy of the file. Throws InputError if `hidden` has no real path.
Fd sandbox_without(const std::string& hidden);

/// Puts the calling thread, and all that it will start, behind the rules: they also cannot trace
/// processes outside. Async-signal-safe. False if the kernel refuses.
bool enter_sandbox(int rules);

}  // namespace baechi::external
