/// Common functions of the readers of blocks: for the files *_block.cpp alone.
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "scenarios/read/blocks.h"

namespace baechi {

/// The options of `block` as `read` takes them. Throws InputError if there are unknown options or
/// bad values.
auto read_block(const Options::Value& block, const char* owner, auto read) {
  Options o = options_of(block, owner, "");
  auto result = read(o);
  o.finish();
  return result;
}

/// Adds a mistake for each of `keys` that `block` lacks.
void need(const Options::Value& block, std::string_view owner,
          std::initializer_list<std::string_view> keys, Mistakes& mistakes);

/// The keys that `read` asks for.
std::vector<Options::Declared> keys_of_reader(auto read) {
  Options o;
  read(o);
  return o.declared();
}

/// The part of block_keys() that each file knows.
std::vector<BlockKeys> cluster_block_keys();
BlockKeys calibration_block_keys();
std::vector<BlockKeys> engine_block_keys();  ///< engine, profile
BlockKeys codesign_block_keys();
BlockKeys report_block_keys();

}  // namespace baechi
