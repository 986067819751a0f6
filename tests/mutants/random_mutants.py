"""Draws small changes of the program: a swapped operator, an exchanged min and max, a dropped statement.

The changes are of .cpp files, outside comments and texts. One seed gives one sequence of changes.
"""
import os
import random
import re

ROOMS = ("sim", "placers", "traces", "scenarios")
SWAPS = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ", " + ": " - ",
    " - ": " + ", " * ": " / ", " && ": " || ", " || ": " && ", " += ": " -= ", " -= ": " += ",
    "std::min(": "std::max(", "std::max(": "std::min(", "::min_element(": "::max_element(",
    "::max_element(": "::min_element(", "true": "false", "false": "true",
}
# A call or an assignment that ends on its line, and declares nothing.
STATEMENT = re.compile(r"^\s*(?!return\b|throw\b|using\b|case\b|default\b|break\b|continue\b|static\b|const\b|auto\b)"
                       r"[\w.:>\[\]-]+(\(.*\)| [-+|&]?= .+);$")
TEXT = re.compile(r'"(\\.|[^"\\])*"|//.*$')


def files_of(root, room):
    """The .cpp files of a room, such as "sim" or "sim/pipeline", in the order of their names."""
    found = []
    for folder, _, names in os.walk(os.path.join(root, room)):
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".cpp")]
    return sorted(found)


def changes_of_line(line):
    """All (what, new line) of a line of code."""
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
    """Where tests of the file may stand, the nearest first; below tests/."""
    room = file.split("/")[0]
    wide = room + (", checker" if room == "sim" else "")
    near = os.path.splitext(file)[0]
    while near and not (os.path.exists(os.path.join(root, "tests", near + "_test.cpp"))
                        or os.path.isdir(os.path.join(root, "tests", near))):
        near = os.path.dirname(near)
    return [wide] if near in ("", room) else [near, wide]


def draw(root, rooms, seed):
    """An endless sequence of changes, room after room: as mutants.txt has them, with `tests` as a list."""
    rng = random.Random(seed)
    files = {room: files_of(root, room) for room in rooms}
    seen = set()
    while True:
        for room in rooms:
            for _ in range(1000):
                file = rng.choice(files[room])
                lines = open(os.path.join(root, file)).read().split("\n")
                at = rng.randrange(len(lines))
                changes = list(changes_of_line(lines[at]))
                if not changes:
                    continue
                what, new = rng.choice(changes)
                if (file, at, new) in seen:
                    continue
                seen.add((file, at, new))
                yield {"room": room, "file": file, "line": at + 1, "why": [what], "tests": tests_of(root, file),
                       "text": "\n".join(lines[:at] + [new] + lines[at + 1:]), "old": [lines[at].strip()],
                       "new": [new.strip()]}
                break
            else:
                raise SystemExit(f"{room}: no more changes to draw")
