/// A component's options as a file or a command line gave them, without yaml-cpp: name -> text, and
/// where it was written.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/units.h"

namespace baechi {

class Options {
 public:
  /// One value: a text, or a list or mapping of further values (a list has empty keys).
  struct Value {
    std::string text;
    std::string where;  ///< "scenarios/x.yaml:7:5"
    std::vector<std::pair<std::string, Value>> children{};
  };
  /// What a value may be.
  enum class Type : std::uint8_t {
    boolean,
    whole,
    number,
    text,
    size,
    time,
    rate,
    flop_rate,
    one_of,
    path,
    any
  };
  /// What a component said about an option when it asked for it.
  struct Declared {
    std::string key, fallback, help;
    Type type{};
    std::vector<std::string> allowed;  ///< of Type::one_of
  };

  Options() = default;
  /// `owner`: the component, for messages. Relative paths among the values are relative to `base`.
  explicit Options(std::string owner, std::map<std::string, Value> values = {},
                   std::string base = {})
      : owner_(std::move(owner)), base_(std::move(base)), values_(std::move(values)) {}

  /// The value of `key`, or `fallback`. Asking is also what declares the option; `help` is its line
  /// in the reference. A value that does not parse is a mistake that finish() reports.
  bool get(const std::string& key, bool fallback, std::string_view help);
  std::int64_t get(const std::string& key, std::int64_t fallback, std::string_view help,
                   std::int64_t least = 0);
  double get(const std::string& key, double fallback, std::string_view help, double least = 0.0);
  std::string get(const std::string& key, const char* fallback, std::string_view help);
  Bytes get(const std::string& key, Bytes fallback, std::string_view help);
  Duration get(const std::string& key, Duration fallback, std::string_view help);
  Bandwidth get(const std::string& key, Bandwidth fallback, std::string_view help);
  FlopRate get(const std::string& key, FlopRate fallback, std::string_view help);
  /// One of `allowed`; the first is the fallback.
  std::string get(const std::string& key, const std::vector<std::string>& allowed,
                  std::string_view help);
  /// A path, made absolute or relative to the working directory; "" if not given.
  std::string path(const std::string& key, std::string_view help);
  /// The value as it stands, for lists and mappings; null if not given.
  const Value* raw(const std::string& key, std::string_view help);

  /// Gives `key` a value, or another one.
  void set(const std::string& key, Value value);

  /// A mistake the component itself found. `key` may be one that was not given.
  void mistake(const std::string& key, std::string_view what);

  /// Throws InputError naming every value that did not parse and every key nobody asked for. The
  /// factory calls it once the component is built.
  void finish() const;

  const std::string& owner() const { return owner_; }
  const std::vector<Declared>& declared() const { return declared_; }

 private:
  const Value* find(const std::string& key, std::string fallback, std::string_view help, Type type);
  void not_a(const std::string& key, const Value& value, std::string_view what);

  std::string owner_;
  std::string base_;
  std::map<std::string, Value> values_;
  std::vector<Declared> declared_;
  Mistakes mistakes_;
};

/// "8:2: " or "": the place of a value, as a message begins.
std::string at(const std::string& where);

}  // namespace baechi
