#!/usr/bin/env python3
"""new.py placer NAME [--root FOLDER]: adds a new placer: writes placers/NAME.cpp, its declaration and row in
placers/registry.cpp, and its line in placers/CMakeLists.txt. The template assigns units to devices round-robin and
passes the contract tests."""
import argparse
import os
import re
import sys

SOURCE = """#include <memory>

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// TODO: the algorithm in one sentence; how it treats memory.
/// Source: TODO.
class %(type)s final : public Placer {
 public:
  explicit %(type)s(Options& o)
      : first_(o.get("first", std::int64_t{0}, "the device to begin with")) {}

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const ColocationUnits units(p.graph);  // colocation groups, and ops that are in none
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    for (const OpId v : p.graph.ops()) {
      const std::size_t turn = index(units.of(v)) + static_cast<std::size_t>(first_);
      result.device[v] = static_cast<DeviceId>(turn %% p.cluster.num_devices());
    }
    return result;
  }

 private:
  std::int64_t first_;
};

}  // namespace

std::unique_ptr<Placer> make_%(name)s(Options& options) {
  return std::make_unique<%(type)s>(options);
}

}  // namespace baechi
"""

ROW = """      {.name = "%(name)s",
       .summary = "TODO: a summary in a few words",
       .source = "TODO: where the algorithm is described",
       .make = make_%(name)s,
       .memory = ignored},
"""


def edit(path, change):
    with open(path) as file:
        before = file.read()
    after = change(before)
    if after == before:
        sys.exit(f"{path}: does not have the lines that this script expects")
    with open(path, "w") as file:
        file.write(after)
    print("changed", path)


def add_line_to_cmake(text, line):
    """Inserts the line in sorted order among the folder's own sources."""
    lines = text.split("\n")
    own = [i for i, old in enumerate(lines) if re.fullmatch(r"  [a-z0-9_]+\.cpp", old)]
    at = max([i for i in own if lines[i] < line], default=own[0] - 1) + 1
    return "\n".join(lines[:at] + [line] + lines[at:])


def main():
    parser = argparse.ArgumentParser(prog="./dev new")
    parser.add_argument("what", choices=["placer"])
    parser.add_argument("name")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    given = parser.parse_args()
    name = given.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        sys.exit(f"'{name}': a placer's name, which is its file's, has lower-case letters, digits and _")
    names = {"name": name, "type": "".join(part.capitalize() for part in name.split("_"))}
    source = os.path.join(given.root, "placers", name + ".cpp")
    registry = os.path.join(given.root, "placers/registry.cpp")
    if os.path.exists(source) or f"make_{name}," in open(registry).read():
        sys.exit(f"placer '{name}' exists")
    table = "std::span<const PlacerEntry> placers() {"
    row = '      {.name = "exec"'
    edit(registry, lambda text: text.replace(table, f"MakePlacer make_{name};\n\n" + table)
         .replace(row, ROW % names + row))
    edit(os.path.join(given.root, "placers/CMakeLists.txt"), lambda text: add_line_to_cmake(text, f"  {name}.cpp"))
    with open(source, "w") as file:
        file.write(SOURCE % names)
    print("wrote  ", source)
    print("Now write the algorithm and its row, then run './dev docs' (schema and tables) and './dev test'.")


main()
