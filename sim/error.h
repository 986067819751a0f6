/// The exceptions of the program, how a run ended, the check that aborts, and how mistakes are
/// gathered.
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/names.h"

namespace baechi {

/// The input (YAML, trace, command line) is wrong. what() has one line per mistake: where it is,
/// what was found, what would be accepted.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A placer found no placement within the devices' memory. That is no proof that there is none.
struct InfeasibleError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The machine that runs the program, not a simulated device, is out of memory: an internal
/// failure. `doing`: the activity, with the file or the size: "placing 20000 ops".
struct HostMemoryError : std::runtime_error {
  explicit HostMemoryError(const std::string& doing)
      : std::runtime_error("out of host memory: " + doing) {}
};

/// How a run ended, with the words for it in files, tables and JSON.
enum class Status : std::uint8_t { ok, oom, infeasible, error };
constexpr auto names_of(Status) { return enumerators<Status::error>(); }

/// Gathers the mistakes of one input, so that a user sees them all at once.
class Mistakes {
 public:
  /// Adds messages, one per line, without duplicates: a mistake in a section that a sweep repeats
  /// is listed once. A line that begins with a space continues the line before it.
  void add(std::string_view messages);
  void add(const Mistakes& others) {
    for (const std::string& message : others.messages_) add(message);
  }
  /// True if `work` threw no InputError. Mistakes that it threw are added.
  bool attempt(const std::invocable auto& work) {
    try {
      work();
      return true;
    } catch (const InputError& e) {
      add(e.what());
      return false;
    }
  }
  bool empty() const { return messages_.empty(); }
  std::size_t size() const { return messages_.size(); }
  /// Orders the messages by path, line and column. Messages without a place come first.
  void sort_by_place();
  void throw_if_any() const;  ///< Throws InputError with one line per mistake.

 private:
  std::vector<std::string> messages_;
  std::set<std::string, std::less<>> seen_;  // all of messages_
};

/// " (did you mean 'x'?)" for the name of `known` that is nearest to `got`, if at most a third of
/// its letters (and at least one) have to change; else "". Ties: the first.
std::string did_you_mean(std::string_view got, std::span<const std::string> known);

/// The `most` names of `known` that are nearest to `got`, nearest first: those that contain it, or
/// that it contains, before others, which go by the share of their letters that differ; letters and
/// digits count alone. Ties: the order of `known`.
std::vector<std::string> nearest(std::string_view got, std::span<const std::string> known,
                                 std::size_t most);

/// "no placer 'm_eft' (did you mean 'm_etf'?) (placers: m_topo, m_etf)"; `what`: "placer".
std::string no_such(std::string_view what, std::string_view name,
                    std::span<const std::string> known);

/// "'gpw' is not one of gpu, cpu (did you mean 'gpu'?)".
std::string not_one_of(std::string_view got, std::span<const std::string> known);
/// not_one_of() for the words of an enum.
template <class E>
std::string not_one_of(std::string_view got) {
  constexpr auto words = all_words<E>();
  return not_one_of(got, std::vector<std::string>(words.begin(), words.end()));
}

/// Prints "sim/units.cpp:12: check failed: CONDITION: WHAT", with `file` relative to the root of
/// the sources, and aborts the program.
[[noreturn]] void check_failed(std::string_view file, int line, const char* condition,
                               const std::string& what);

/// Aborts the program if `cond` is false: for bugs, never for input. The other arguments are those
/// of fmt::format().
#define BAECHI_CHECK(cond, ...)                                                    \
  do {                                                                             \
    if (!(cond)) [[unlikely]]                                                      \
      ::baechi::check_failed(__FILE__, __LINE__, #cond, fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace baechi
