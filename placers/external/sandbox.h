/// Hides a file from a program, and prevents it from signalling other processes, by the kernel's
/// Landlock.
#pragma once
#include <string>

#include "placers/external/pipes.h"

namespace baechi::external {

/// What this kernel's Landlock can restrict.
enum class Guard { nothing, files, files_and_signals };
Guard kernel_guard();

/// Rules for enter_sandbox(): everything that exists now is accessible except `hidden`, and the
/// folders above `hidden` cannot be changed. Not open if `hidden` is "" or there is no Landlock.
/// Another copy of the file stays readable. Throws InputError if `hidden` has no real path.
Fd sandbox_without(const std::string& hidden);

/// Restricts the calling thread and all that it starts by the rules; they also cannot trace
/// processes outside. Async-signal-safe. False if the kernel refuses.
bool enter_sandbox(int rules);

}  // namespace baechi::external
