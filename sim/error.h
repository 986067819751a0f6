/// The two things that may be thrown, and the one that aborts.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

/// The input (YAML, trace, command line) is wrong. `what()` says where, what, and what would be
/// accepted; one line per mistake.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A placer proved, or gave up looking, that no placement fits the devices' memory.
struct InfeasibleError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Gathers the mistakes of one input, so that a user sees them all at once.
class Mistakes {
 public:
  void add(std::string message) { messages_.push_back(std::move(message)); }
  bool empty() const { return messages_.empty(); }
  void throw_if_any() const;  ///< Throws InputError with one line per mistake.

 private:
  std::vector<std::string> messages_;
};

/// " (did you mean 'x'?)" if one of `known` is at most a third of its letters away from `got`
/// (ties: the first), else "".
std::string did_you_mean(std::string_view got, std::span<const std::string> known);

#define BAECHI_CHECK(cond, ...)                                                      \
  do {                                                                               \
    if (!(cond)) [[unlikely]] {                                                      \
      fmt::print(stderr, "{}:{}: check failed: {}: {}\n", __FILE__, __LINE__, #cond, \
                 fmt::format(__VA_ARGS__));                                          \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)

}  // namespace baechi
