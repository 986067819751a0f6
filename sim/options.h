/// The options of a component (placer, transform, ...) as given in a file or on the command line: a
/// text per name, with its place in the file. And tables of components, whose entries have a
/// `name`.
#pragma once
#include <limits>
#include <map>
#include <utility>

#include "sim/error.h"
#include "sim/units.h"

namespace baechi {

class Options {
 public:
  /// One value: a text, a list or a mapping. The items of a list are children with empty keys.
  struct Value {
    std::string text;
    std::string where;  ///< place in a file, "scenarios/x.yaml:7:5"; "" if unknown
    std::vector<std::pair<std::string, Value>> children{};
  };
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
  /// An option as the component declared it: its default as text, and one line of help.
  struct Declared {
    std::string key, fallback, help;
    Type type{};
    std::vector<std::string> allowed;  ///< the accepted words; for Type::one_of only
  };

  Options() = default;
  /// `owner`: the component's name, for messages. `base`: the folder that relative paths among the
  /// values start from; "" for the working directory.
  explicit Options(std::string owner, std::map<std::string, Value> values = {},
                   std::string base = {})
      : owner_(std::move(owner)), base_(std::move(base)), values_(std::move(values)) {}
  /// The folder of relative paths, to pass on to nested components.
  const std::string& base() const { return base_; }

  /// Declares the option `key`, with `help` as its line in the reference, and returns its value;
  /// `fallback` if `key` was not given. A value that does not parse, or is below `least` or above
  /// `most`, is a mistake that finish() reports. An option that decides how much memory is taken
  /// needs a `most`.
  bool get(const std::string& key, bool fallback, std::string_view help);
  std::int64_t get(const std::string& key, std::int64_t fallback, std::string_view help,
                   std::int64_t least = 0,
                   std::int64_t most = std::numeric_limits<std::int64_t>::max());
  double get(const std::string& key, double fallback, std::string_view help, double least = 0.0,
             double most = std::numeric_limits<double>::max());
  std::string get(const std::string& key, const char* fallback, std::string_view help);
  Bytes get(const std::string& key, Bytes fallback, std::string_view help);
  Duration get(const std::string& key, Duration fallback, std::string_view help);
  Bandwidth get(const std::string& key, Bandwidth fallback, std::string_view help);
  FlopRate get(const std::string& key, FlopRate fallback, std::string_view help);
  /// The value must be one of `allowed`; the first of them is the fallback.
  std::string get(const std::string& key, const std::vector<std::string>& allowed,
                  std::string_view help);
  /// The value as a path: absolute, or relative to the working directory; "" if not given.
  std::string path(const std::string& key, std::string_view help);
  /// The value without any conversion, for lists and mappings; null if not given.
  const Value* raw(const std::string& key, std::string_view help) {
    return find(key, "", help, Type::any);
  }

  /// Sets the value of `key`, in place of any value it had.
  void set(const std::string& key, Value value) { values_[key] = std::move(value); }

  /// Adds a mistake that the component found in the value of `key`, given or not; finish() throws.
  void mistake(const std::string& key, std::string_view what);

  /// A mistake, if `key` was given: the option is called `now`.
  void renamed(const std::string& key, std::string_view now);

  /// Another spelling of the option `now`; a mistake if both are given.
  void respelled(const std::string& key, const std::string& now);

  /// Throws InputError if there are mistakes, and names all: the recorded mistakes, and every given
  /// key that was not declared. Call it once the component is built.
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

/// The place of a value as the beginning of a message: "x.yaml:8:2: "; "" if `where` is "".
std::string at(const std::string& where);

std::vector<std::string> entry_names(const auto& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

/// The entry called `name`. Throws InputError with no_such()'s message if there is none. `where`:
/// the name's place in a file, or "".
const auto& find_entry(const auto& entries, std::string_view what, std::string_view name,
                       std::string_view where = {}) {
  for (const auto& entry : entries)
    if (entry.name == name) return entry;
  throw InputError(at(std::string(where)) + no_such(what, name, entry_names(entries)));
}

/// What the entry called `name` makes of `options`. Throws InputError as find_entry(), and on an
/// unknown option or a bad value.
auto make_entry(const auto& entries, std::string_view what, std::string_view name, Options options,
                const std::string& where) {
  auto made = find_entry(entries, what, name, where).make(options);
  options.finish();
  return made;
}

/// The value of option `key`, given by its word; `fallback` if none is given.
template <NamedEnum E>
E read_enum(Options& options, const std::string& key, E fallback, std::string_view help) {
  std::vector<std::string> allowed{std::string(to_text(fallback))};
  for (const E e : all<E>())
    if (e != fallback) allowed.emplace_back(to_text(e));
  return *parse<E>(options.get(key, allowed, help));
}

/// As read_enum(), with one more word, `none`: the default, which means no value.
template <NamedEnum E>
std::optional<E> read_enum_unless(Options& options, const std::string& key, std::string_view none,
                                  std::string_view help) {
  std::vector<std::string> allowed{std::string(none)};
  for (const std::string_view word : all_words<E>()) allowed.emplace_back(word);
  return parse<E>(options.get(key, allowed, help));
}

}  // namespace baechi
