"""Draws small changes of the program: a swapped operator, min for max, a dropped statement; in .cpp files, outside
comments, strings and constants. Equal seeds give equal sequences.

All changes of a file are in one text, each behind `mutant(NUMBER)`; the environment variable BAECHI_MUTANT chooses one.
"""
import os
import random
import re

MODULES = ("sim", "placers", "traces", "scenarios")
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "&&": "||",
         "||": "&&", "+=": "-=", "-=": "+="}
CALLS = {"std::min(": "std::max(", "std::max(": "std::min(", "::min_element(": "::max_element(",
         "::max_element(": "::min_element("}
# How tightly operators bind; 0 ends an operand.
LEVELS = {level: names.split() for level, names in enumerate(
    ["= += -= *= /= |= &= ? :", "||", "&&", "|", "^", "&", "== !=", "<=>", "< <= > >=", "<< >>", "+ -", "* / %"])}
LEVEL = {name: level for level, names in LEVELS.items() for name in names}
# A call or an assignment on one line, without a declaration.
STATEMENT = re.compile(r"^\s*(?!return\b|throw\b|using\b|case\b|default\b|break\b|continue\b|static\b|const\b|auto\b)"
                       r"[\w.:>\[\]-]+(\(.*\)| [-+|&]?= .+);$")
# Statements without an effect on results.
IDLE = re.compile(r"[\w.:>\[\]-]+[.>]reserve\(|BAECHI_CHECK\(")
HIDDEN = re.compile(r'R"\((.|\n)*?\)"|"(\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(\\.|[^\'\\\n])\'|//[^\n]*|^\s*#[^\n]*', re.M)
TOKEN = re.compile(r"[()\[\]{};,]|[^\s()\[\]{};,]+")
HEADER = """#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>
inline struct Mutants {
  int chosen = std::getenv("BAECHI_MUTANT") ? std::atoi(std::getenv("BAECHI_MUTANT")) : -1;
  const char* path = std::getenv("BAECHI_MUTANTS_REACHED");
  bool reached[1 << 14] = {};
  void reach(int k) {
    reached[k] = true;
    std::FILE* file = path ? std::fopen(path, "a") : nullptr;
    if (file) std::fprintf(file, "%d\\n", k), std::fclose(file);
  }
} mutants;
constexpr bool mutant(int k) {
  if (std::is_constant_evaluated()) return false;
  if (!mutants.reached[k]) mutants.reach(k);
  return mutants.chosen == k;
}
"""


def files_of(root, module):
    """The .cpp files of a folder, such as "sim" or "sim/pipeline", sorted."""
    found = []
    for folder, _, names in os.walk(os.path.join(root, module)):
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".cpp")]
    return sorted(found)


class Source:
    """A file as tokens: brackets, separators, operators between spaces, and everything else."""

    def __init__(self, text):
        self.text = text
        self.code = HIDDEN.sub(lambda found: re.sub(r"\S", " " if found.group().lstrip()[0] in "/#" else "_", found.group()),
                               text)
        self.tokens = [(found.group(), found.start(), found.end()) for found in TOKEN.finditer(self.code)]
        self.partner, open_ones = {}, []
        for i, (word, _, _) in enumerate(self.tokens):
            if word in "([{":
                open_ones.append(i)
            elif word in ")]}" and open_ones:
                self.partner[i] = open_ones.pop()
                self.partner[self.partner[i]] = i

    def joined(self, i, j):
        """Whether tokens i and j, neighbours, are parts of one operand."""
        return self.tokens[i][2] == self.tokens[j][1] or any(self.tokens[k][0] in LEVEL for k in (i, j))

    def operand(self, at, level, step):
        """The first (step -1) or last token of the operand of an operator at token `at`."""
        opening, closing = ("([{", ")]}") if step > 0 else (")]}", "([{")
        i = at
        while True:
            j = i + step
            word = self.tokens[j][0]
            if word in closing or word in (";", ",") or (i != at and not self.joined(min(i, j), max(i, j))):
                return i
            if word in LEVEL and (LEVEL[word] < level or (step > 0 and LEVEL[word] == level)):
                return i
            i = self.partner[j] if word in opening else j

    def flat(self, start, end):
        """The text on one line, without comments."""
        return "".join(t if c == t or c == "_" else " " for t, c in zip(self.text[start:end], self.code[start:end])).replace("\n", " ")

    def changes(self):
        """All changes: (start, end, description, function of a number to text)."""
        line_ends = [0] + [found.end() for found in re.finditer("\n", self.text)]
        for start, end in zip(line_ends, line_ends[1:]):
            line = self.code[start:end - 1]
            if STATEMENT.match(line) and not IDLE.match(line.strip()):
                first = start + len(line) - len(line.lstrip())
                yield first, end - 1, "dropped", lambda k, s=self.text[first:end - 1]: f"{{ if (!mutant({k})) {s} }}"
        for i, (word, start, end) in enumerate(self.tokens):
            spaced = self.code[start - 1:start].isspace() and self.code[end:end + 1].isspace()
            if word in SWAPS and spaced:
                first, last = self.operand(i, LEVEL[word], -1), self.operand(i, LEVEL[word], 1)
                if first == i or last == i:
                    continue
                a, b = self.tokens[first][1], self.tokens[last][2]
                left, right = self.flat(a, start), self.flat(end, b)
                cast = "(void)" if word in ("+=", "-=") else ""
                yield a, b, f"{word} to {SWAPS[word]}", (
                    lambda k, w=word, l=left, r=right, c=cast:
                    f"(mutant({k}) ? {c}({l} {SWAPS[w]} {r}) : {c}({l} {w} {r}))")
            elif word in ("true", "false"):
                other = "false" if word == "true" else "true"
                yield start, end, f"{word} to {other}", lambda k, w=word, o=other: f"(mutant({k}) ? {o} : {w})"
            for old, new in CALLS.items():
                if (word + "(").endswith(old) and self.tokens[i + 1][0] == "(" and "<" not in word:
                    close = self.tokens[self.partner[i + 1]][2]
                    name, rest = self.flat(start, end), self.flat(end, close)
                    swapped = name[:len(name) - len(old) + 1] + new[:-1]
                    yield start, close, f"{old[:-1]} to {new[:-1]}", (
                        lambda k, n=name, s=swapped, r=rest: f"(mutant({k}) ? {s}{r} : {n}{r})")


def draw(root, module, count, seed):
    """Up to `count` changes of a folder, no two of a line."""
    rng = random.Random(f"{seed} {module}")
    found = []
    for file in files_of(root, module):
        source = Source(open(os.path.join(root, file)).read())
        lines = source.text.split("\n")
        for start, end, why, text in source.changes():
            first, last = (source.text.count("\n", 0, at) for at in (start, end))
            if "constexpr" in source.text[max(source.text.rfind(c, 0, start) for c in ";{}") + 1:end]:
                continue
            found.append({"file": file, "start": start, "end": end, "lines": range(first + 1, last + 2), "why": why,
                          "text": text, "old": lines[source.text.count("\n", 0, start)].strip(), "module": module})
    rng.shuffle(found)
    taken, chosen = set(), []
    for change in found:
        lines = {(change["file"], line) for line in change["lines"]}
        if len(chosen) < count and not lines & taken:
            taken |= lines
            chosen.append(change)
    return chosen


def with_changes(root, file, changes):
    """The text of a file with changes, its lines where they were; `changes` have numbers."""
    text = open(os.path.join(root, file)).read()
    for change in sorted(changes, key=lambda change: -change["start"]):
        old = text[change["start"]:change["end"]]
        text = text[:change["start"]] + change["text"](change["number"]) + "\n" * old.count("\n") + text[change["end"]:]
    return text


def test_files(root, file):
    """Test files of the top folder of `file`."""
    module = file.split("/")[0]
    found = []
    for top in [module] + (["checker"] if module == "sim" else []):
        for folder, _, names in os.walk(os.path.join(root, "tests", top)):
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith("_test.cpp")]
    return sorted(found)
