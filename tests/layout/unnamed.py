#!/usr/bin/env python3
"""unnamed.py BUILD: lists functions in unnamed namespaces that become overloads of each other because a unity build compiles their
sources as one: same enclosing namespace, same name, different sources. BUILD is a configured build folder with BAECHI_UNITY. Reads
the layout that clang-format gives: namespaces and definitions begin in the first column. Exit code 1 if there is one."""
import collections
import glob
import os
import re
import sys

DEFINITION = re.compile(r"^(?=\S)(?!using |struct |class |enum |namespace |return |TEST_|#|//|static_assert|template)[\w:<>,&*\[\] ]*?[\w>&*] [&*]*(\w+)\(")


def unnamed_functions(path):
    """(namespace, name) of the functions that a source defines in unnamed namespaces."""
    spaces, found = [], set()
    for line in open(path, errors="replace"):
        if opened := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{$", line.rstrip()):
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif spaces and spaces[-1] == "" and (definition := DEFINITION.match(line)):
            found.add(("::".join(s for s in spaces if s), definition[1]))
    return found


def main():
    clashes = 0
    for unity in sorted(glob.glob(os.path.join(sys.argv[1], "*", "CMakeFiles", "*", "Unity", "*.cxx"))):
        places = collections.defaultdict(list)
        for source in re.findall(r'#include "([^"]+\.cpp)"', open(unity).read()):
            if os.path.exists(source):
                for name in unnamed_functions(source):
                    places[name].append(source)
        for (space, name), sources in sorted(places.items()):
            if len(sources) > 1:
                clashes += 1
                print(f"{space}::{name}:", *(os.path.relpath(source) for source in sources))
    return clashes > 0


if __name__ == "__main__":
    sys.exit(main())
