#include <filesystem>

#include "scenarios/read/cluster_parts.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/tree.h"
#include "sim/collectives/collective_models.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

using Value = Options::Value;

/// `value` merged into `base`, mappings key by key.
Value merged(Value base, const Value& value) {
  if (!is_mapping(base) || !is_mapping(value)) return value;
  for (const auto& [key, child] : value.children) {
    if (Value* old = find(base, key))
      *old = merged(*old, child);
    else
      base.children.emplace_back(key, child);
  }
  return base;
}

/// The folder of the file that contains a value; `base` if it is in no file.
std::string folder_of(const Value& value, const std::string& base) {
  const std::string file = value.where.substr(0, value.where.find(':'));
  std::error_code none;
  return std::filesystem::is_regular_file(file, none)
             ? std::filesystem::path(file).parent_path().string()
             : base;
}

/// The section with names of types replaced by their sections, and with full paths, also in
/// `inside`.
Value whole(const Value& given, const std::string& base, const KnownKinds& kinds) {
  Value section = with_kind(given, "collective kind", kinds, &DeviceTable::collectives);
  if (Value* file = find(section, "file")) file->text = resolve_path(*file, folder_of(*file, base));
  if (Value* inside = find(section, "inside"); inside != nullptr && is_mapping(*inside))
    *inside = whole(*inside, base, kinds);
  return section;
}

}  // namespace

Value with_kind(const Value& value, std::string_view what, const KnownKinds& kinds,
                Sections DeviceTable::* known) {
  const Value* kind = find(value, "kind");
  if (kind == nullptr) return value;
  const Sections& sections = kinds.table().*known;
  const auto it = sections.find(kind->text);
  if (it == sections.end())
    throw InputError(at(kind->where) + no_such(what, kind->text, keys_of(sections)));
  Value own = value;
  erase(own, "kind");
  Value section = is_mapping(own) ? merged(it->second.section, own) : it->second.section;
  section.where = value.where;
  return section;
}

void read_collectives(const Value& section, const std::string& base, const KnownKinds& kinds,
                      ClusterChoice& cluster) {
  const Value made = whole(section, base, kinds);
  cluster.collectives = make_collectives(made);
  cluster.collectives_text = one_line(made);
}

}  // namespace baechi
