/// YAML text as a tree of values: reading it, finding and changing values, and the combinations of
/// the values of a sweep.
#pragma once

#include "sim/options.h"

namespace baechi {

inline bool is_mapping(const Options::Value& v) {
  return !v.children.empty() && !v.children.front().first.empty();
}
inline bool is_list(const Options::Value& v) {
  return !v.children.empty() && v.children.front().first.empty();
}
/// Null if `v` has no such key.
const Options::Value* find(const Options::Value& v, std::string_view key);
Options::Value* find(Options::Value& v, std::string_view key);
void erase(Options::Value& v, std::string_view key);

std::size_t count_values(const Options::Value& v);  ///< including `v` itself

/// Sets the value at the dotted `key` below `root`, and creates missing mappings. Items of lists
/// are numbered from 0. Throws InputError, at value.where, if the key leads through a single value
/// or to a list item that does not exist.
void put(Options::Value& root, std::string_view key, Options::Value value);

/// The value as one line of YAML: "0.5", "{generate: layered, ops: 200}". Equal values have equal
/// lines.
std::string one_line(const Options::Value& v);

struct Axis {
  std::string key;  ///< dotted, from the root: "cluster.memory_fraction"
  std::vector<Options::Value> values;
};

/// Calls `visit` with every variant of `section`, whose key is `name`: one for each combination of
/// the values of `axes`, the last axis varying fastest; without axes, `section` itself. Shorter
/// keys are put first, so that "cluster" does not undo "cluster.link". Ends early if `visit`
/// returns false. Throws InputError if a key does not exist (see put()).
void for_each_combination(const std::string& name, const Options::Value& section,
                          std::span<const Axis> axes,
                          const std::function<bool(const Options::Value&)>& visit);

/// The number of combinations, or `most` + 1 if there are more than `most`.
std::size_t count_combinations(std::span<const Axis> axes, std::size_t most);

/// Parses the single document of `text`. `path` begins every message and every Value::where. An
/// alias becomes a copy of its value. Throws InputError if the text is not YAML, has more than one
/// document, has a tag, or has a key that is repeated, empty or no plain text; and if it has more
/// than 1 MiB of text, 100 levels or 100 000 values (aliases expanded).
Options::Value parse_yaml(std::string_view text, const std::string& path);

}  // namespace baechi
