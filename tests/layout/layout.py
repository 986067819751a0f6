#!/usr/bin/env python3
"""layout.py: prints mistakes in the layout of the sources, one line each: a file that includes a higher layer of modules.txt, a cycle of
folders, a type that two headers define, a word of one module in names of another, a page or a release number that differs. Exit code 1 if
there are any."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
faults = []


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def layers():
    """[folder, "core" or "-", description] of each module by layer, lowest first."""
    return [[line.split(None, 2) for line in part.splitlines()] for part in read("tests/layout/modules.txt").split("\n\n")[1:]]


def module_map():
    """ARCHITECTURE's table: highest layer first, the core bold."""
    rows = "| folder | what it does |\n|---|---|\n"
    for folder, core, what in (module for layer in reversed(layers()) for module in layer):
        rows += "| {0}`{1}{2}`{0} | {3} |\n".format("**" if core == "core" else "", folder, "" if folder.endswith(".cpp") else "/", what)
    return rows


def files(folders, endings):
    for top in folders:
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


SOURCES = sorted(files(("sim", "traces", "placers", "scenarios", "validate", "cli", "bench", "python", "tests"),
                       (".h", ".cpp", ".cu", ".cuh")))
LAYER = {module[0]: number for number, layer in enumerate(layers()) for module in layer}


def includes(path):
    return re.findall(r'^#include "([^"]+)"', read(path), re.M)


def is_harness(path):
    """The CUDA harness is standalone: it includes only validate/plan, and only its tests include it."""
    return path.startswith("validate/cuda")


def layer_of(path):
    top, folder = path.split("/")[0], os.path.dirname(path)
    folder = top if top in ("tests", "bench") else folder
    return max(LAYER.get(folder, -1), LAYER.get(folder + "/*" + os.path.splitext(path)[1], -1))


def allowed(path, to):
    if is_harness(path):
        return is_harness(to) or os.path.dirname(to) == "validate/plan"
    if is_harness(to):
        return path.startswith("tests/")
    return (os.path.dirname(to) == os.path.dirname(path) or 0 <= layer_of(to) < layer_of(path) or
            (path.startswith("tests/") and to.startswith("tests/")))


def check_includes():
    left = {}  # the folders that each folder includes
    for path in SOURCES:
        if layer_of(path) < 0 and not is_harness(path):
            faults.append(f"{path}: its folder is not in tests/layout/modules.txt")
        for to in includes(path):
            if not os.path.exists(os.path.join(ROOT, to)):
                faults.append(f"{path}: {to}: includes are paths from the root of the repository")
            elif not allowed(path, to):
                faults.append(f"{path} includes {to}, which is not in a lower layer")
        if not path.startswith("tests/"):
            left.setdefault(os.path.dirname(path), set()).update(os.path.dirname(to) for to in includes(path))
        if "#include <yaml-cpp" in read(path) and path != "scenarios/read/yaml.cpp":
            faults.append(f"{path} includes yaml-cpp, as only scenarios/read/yaml.cpp may")
    while True:  # folders go whose includes are all gone; the rest are in a cycle, or include one
        gone = [folder for folder, others in left.items() if not (others - {folder}) & left.keys()]
        if not gone:
            break
        for folder in gone:
            del left[folder]
    faults.extend(f"{folder} is in a cycle of includes, or includes one: {sorted(others & left.keys())}" for folder, others in left.items())


def types_of(path):
    """The types that a header defines at namespace level, such as baechi::Op; they begin in the first column."""
    spaces = []
    for line in read(path).split("\n"):
        if match := re.match(r"namespace (.*) \{$", line):
            spaces.append(match[1])
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif match := re.match(r"(?:enum class|class|struct) ([^ :{;]+)(?:.*\{| final :| :)", line):
            yield "::".join([*spaces, match[1]])


def check_types():
    seen = {}
    for path in SOURCES:
        if path.endswith(".h") and not is_harness(path) and not path.startswith("tests/"):
            for name in types_of(path):
                if seen.setdefault(name, path) != path:
                    faults.append(f"{name} is defined in {seen[name]} and {path}")
    if not {"baechi::OpGraph", "baechi::generate::tf1::Graph"} <= seen.keys():
        faults.append("types are not found")


def check_words():
    """A row of GLOSSARY's last table: "| **plan** | `validate`: replay plans; `cli`: ... |"."""
    rows = re.findall(r"^\| \*\*(\w+)\*\* (.*)", read("GLOSSARY.md").split("## Words that belong to one module")[1].split("\n## ")[0], re.M)
    for path in SOURCES:
        if path.startswith(("tests/", "bench/")) or is_harness(path):
            continue
        names = [os.path.splitext(os.path.basename(path))[0]]
        if path.endswith(".h"):
            names += [re.sub("([A-Z])", r"_\1", name.split("::")[-1]).lower() for name in types_of(path)]
        for word, modules in rows:
            folders = re.findall("`([^`]+)`", modules)
            if not any(os.path.dirname(path) == f or path.startswith(f + "/") for f in folders):
                faults.extend(f"{word} in {name} of {path}" for name in names if re.search(f"_{word}s?_", f"_{name}_"))


def check_pages():
    faults.extend(f"{folder}: no such folder" for folder in LAYER if "*" not in folder and not os.path.isdir(os.path.join(ROOT, folder)))
    if f"<!-- modules -->\n{module_map()}<!-- end -->" not in read("ARCHITECTURE.md"):
        faults.append("ARCHITECTURE.md: its map is not that of tests/layout/modules.txt: run ./dev docs")
    if not 500 < len(read("README.md").split()) <= 1200:
        faults.append("README.md: more than 1,200 words")
    for numbers in ((("CMakeLists.txt", r"baechi_sim VERSION ([0-9.]+)"), ("CITATION.cff", r"\nversion: ([0-9.]+)"),
                     ("CHANGELOG.md", r"\n## ([0-9.]+) "), ("packaging/changelog", r"\(([0-9.]+)-1\)"),
                     ("packaging/Containerfile", r"baechi-sim:([0-9.]+) ")),
                    (("CITATION.cff", r"date-released: ([0-9-]+)"), ("CHANGELOG.md", r"\n## [0-9.]+ \(([0-9-]+)\)"))):
        found = {path: re.findall(pattern, read(path))[:1] for path, pattern in numbers}
        if len(set(map(tuple, found.values()))) > 1 or [] in found.values():
            faults.append(f"not one version or date: {found}")
    for path in files(("sim", "traces", "placers", "scenarios", "validate", "cli", "bench", "tests"), (".h", ".cpp", ".md", ".yaml")):
        for number, line in enumerate(read(path).split("\n"), 1):
            if re.search(r"((^|[.:]|//|///|#) *)Of [a-z0-9]", line):
                faults.append(f"{path}:{number}: a sentence begins with a bare 'Of'")
            # Until C++23 the value that json() returns is gone when the loop begins: it runs over nothing, and checks nothing.
            if path.endswith(".cpp") and re.search(r"for \(.* : .*\bjson\(.*(\)\[|, \".*\"\)\[)", line):
                faults.append(f"{path}:{number}: a loop over a part of a temporary")


if __name__ == "__main__":
    check_includes()
    check_types()
    check_words()
    check_pages()
    print("\n".join(faults))
    sys.exit(1 if faults else 0)
