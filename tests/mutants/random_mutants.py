"""Draws small changes of the program: a swapped operator, min for max, a dropped statement; in .cpp files, outside
comments and strings. Equal seeds give equal sequences.
"""
import os
import random
import re

MODULES = ("sim", "placers", "traces", "scenarios")
SWAPS = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ", " + ": " - ",
    " - ": " + ", " * ": " / ", " && ": " || ", " || ": " && ", " += ": " -= ", " -= ": " += ",
    "std::min(": "std::max(", "std::max(": "std::min(", "::min_element(": "::max_element(",
    "::max_element(": "::min_element(", "true": "false", "false": "true",
}
# A call or an assignment on one line, without a declaration.
STATEMENT = re.compile(r"^\s*(?!return\b|throw\b|using\b|case\b|default\b|break\b|continue\b|static\b|const\b|auto\b)"
                       r"[\w.:>\[\]-]+(\(.*\)| [-+|&]?= .+);$")
TEXT = re.compile(r'"(\\.|[^"\\])*"|//.*$')


def files_of(root, module):
    """The .cpp files of a folder, such as "sim" or "sim/pipeline", sorted."""
    found = []
    for folder, _, names in os.walk(os.path.join(root, module)):
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".cpp")]
    return sorted(found)


def changes_of_line(line):
    """All changes of a line of code: (description, new line)."""
    code = TEXT.sub(lambda found: "_" * len(found.group()), line)
    if code.lstrip().startswith(("#", "template", "case ")):
        return
    for old, new in SWAPS.items():
        for found in re.finditer(re.escape(old), code):
            before, after = code[:found.start()], code[found.end():]
            if old.isalpha() and (before[-1:].isidentifier() or after[:1].isidentifier()):
                continue  # part of a name
            yield f"{old.strip()} to {new.strip()}", line[:found.start()] + new + line[found.end():]
    if STATEMENT.match(code):
        yield "dropped", re.match(r"\s*", line).group() + ";"


def tests_of(root, file):
    """Prefixes below tests/ of the file's tests, the nearest first."""
    module = file.split("/")[0]
    wide = module + (", checker" if module == "sim" else "")
    near = os.path.splitext(file)[0]
    while near and not (os.path.exists(os.path.join(root, "tests", near + "_test.cpp"))
                        or os.path.isdir(os.path.join(root, "tests", near))):
        near = os.path.dirname(near)
    return [wide] if near in ("", module) else [near, wide]


def draw(root, modules, seed):
    """An endless sequence of changes, by folder in turn, in the form of mutants.txt with a list of `tests`."""
    rng = random.Random(seed)
    files = {module: files_of(root, module) for module in modules}
    seen = set()
    while True:
        for module in modules:
            for _ in range(1000):
                file = rng.choice(files[module])
                lines = open(os.path.join(root, file)).read().split("\n")
                at = rng.randrange(len(lines))
                changes = list(changes_of_line(lines[at]))
                if not changes:
                    continue
                what, new = rng.choice(changes)
                if (file, at, new) in seen:
                    continue
                seen.add((file, at, new))
                yield {"module": module, "file": file, "line": at + 1, "why": [what], "tests": tests_of(root, file),
                       "text": "\n".join(lines[:at] + [new] + lines[at + 1:]), "old": [lines[at].strip()],
                       "new": [new.strip()]}
                break
            else:
                raise SystemExit(f"{module}: no more changes to draw")
