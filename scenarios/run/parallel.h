/// Independent work on several threads.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>

namespace baechi {

/// Calls work(0), ..., work(count - 1), each once, on up to `threads` threads; an idle thread takes
/// the next number. Once `*stop` (if given) is set, no further number is taken. `work` must not
/// throw.
void for_each_in_parallel(std::size_t count, std::size_t threads, const std::atomic<bool>* stop,
                          const std::function<void(std::size_t)>& work);

}  // namespace baechi
