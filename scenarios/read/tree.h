/// Finds and changes values in the tree of a YAML file.
#pragma once
#include <string>
#include <string_view>

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

}  // namespace baechi
