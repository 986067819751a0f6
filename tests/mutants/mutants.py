#!/usr/bin/env python3
"""Mutation tests: applies small changes to the program, one at a time, and lists those that no test detects.

mutants.py BUILD [N [SEED]] [--file PART]: BUILD is a build folder of the preset `quick` (or `test`). With N, a random N of the
changes, drawn with SEED. With --file, only changes of files whose path contains PART.

mutants.py --list: without building, lists changes whose old text does not occur exactly once in the file, or that have no tests.

mutants.py BUILD --random N [--seed S] [FOLDER]: N random changes (random_mutants.py), in equal numbers from sim, placers,
traces and scenarios, or all from FOLDER, such as sim/pipeline. A change that does not compile is replaced by another. The
tests next to the file run first, then those of its top folder. The last lines are the score of each folder. Survivors need
a review: some are equivalent mutants.

The checkout is not modified. The changed file is in BUILD/mutants; only its compilation (in a unity build, that of its
library) and the link are repeated, with the commands of BUILD. A change that does not compile, or whose old text does not
occur exactly once in its file, is an error of the list. Exit code 1 if a change survives.

The list, mutants.txt: a block per change, separated by empty lines.
  # what the change breaks
  file placers/list/booked_memory.cpp
  tests placers/list, placers/heft_test
  - old text: whole lines, or a text that occurs once in the file
  + new text
`tests` are prefixes of the test files below tests/ that must detect the change.
"""
import argparse
import glob
import json
import os
import random
import shlex
import subprocess
import sys

import random_mutants

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TIME_LIMIT_S = 300  # an endless loop counts as detected


def read_list(path):
    changes, change = [], None
    for number, line in enumerate(open(path), 1):
        line = line.rstrip("\n")
        if not line:
            change = None
            continue
        if change is None:
            change = {"line": number, "why": [], "old": [], "new": []}
            changes.append(change)
        word, _, rest = line.partition(" ")
        if word == "#":
            change["why"].append(rest)
        elif word in ("file", "tests"):
            change[word] = rest
        elif word == "-":
            change["old"].append(rest)
        elif word == "+":
            change["new"].append(rest)
        else:
            sys.exit(f"{path}:{number}: '{line}' does not begin with #, file, tests, - or +")
    for change in changes:
        missing = [key for key in ("why", "file", "tests", "old") if not change.get(key)]
        if missing:
            sys.exit(f"{path}:{change['line']}: no {', '.join(missing)}")
    return changes


def changed_text(change):
    """The changed file. Whole lines are compared without indentation; else the old text is a part of a line."""
    text = open(os.path.join(ROOT, change["file"])).read()
    lines = text.split("\n")
    old = [text.strip() for text in change["old"]]
    places = [i for i in range(len(lines)) if [line.strip() for line in lines[i:i + len(old)]] == old]
    part = "\n".join(change["old"])
    if not places and text.count(part) == 1:
        return text.replace(part, "\n".join(change["new"]))
    if len(places) != 1:
        raise ValueError(f"the old text occurs {len(places)} times in {change['file']}")
    at = places[0]
    return "\n".join(lines[:at] + change["new"] + lines[at + len(old):])


class Build:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.scratch = os.path.join(self.folder, "mutants")
        os.makedirs(self.scratch, exist_ok=True)
        self.commands = json.load(open(os.path.join(self.folder, "compile_commands.json")))
        self.link = self.ninja("-t", "commands", "baechi_tests").splitlines()[-1]
        self.objects = {}

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", self.folder, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.replace(f"ninja: Entering directory `{self.folder}'\n", "")

    def compilation(self, file):
        """Command and source of the compilation that contains `file`: its own, or its library's."""
        path = os.path.join(ROOT, file)
        for command in self.commands:
            if command["file"] == path:
                return command
        for command in self.commands:
            if "/Unity/" in command["file"] and f'"{path}"' in open(command["file"]).read():
                return command
        raise ValueError(f"nothing compiles {file}")

    def compile(self, file, text):
        """The replaced object, relative to the build folder, and the new one."""
        path = os.path.join(ROOT, file)
        command = self.compilation(file)
        changed = os.path.join(self.scratch, os.path.basename(file))
        open(changed, "w").write(text)
        source = changed
        if command["file"] != path:
            source = os.path.join(self.scratch, "unity.cxx")
            unity = open(command["file"]).read().replace(f'"{path}"', f'"{changed}"')
            open(source, "w").write(unity)
        words = [word for word in shlex.split(command["command"]) if word != "-Werror"]
        place = words.index("-o") + 1
        replaced = os.path.relpath(os.path.join(command["directory"], words[place]), self.folder)
        words[place] = os.path.join(self.scratch, "changed.o")
        words = [source if word == command["file"] else word for word in words]
        done = subprocess.run(words, cwd=command["directory"], text=True, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise ValueError("it does not compile: " + done.stderr[:600])
        return replaced, words[place]

    def objects_of(self, library):
        if library not in self.objects:
            lines = self.ninja("-t", "query", library).splitlines()
            self.objects[library] = [line.strip() for line in lines if line.strip().endswith(".o")]
        return self.objects[library]

    def link_with(self, replaced, by):
        """Links the test program with the objects of the archive that contains `replaced`, instead of that archive."""
        program = os.path.join(self.scratch, "baechi_tests")
        words = []
        for word in shlex.split(self.link.split(" && ")[1] if " && " in self.link else self.link):
            word = word.removeprefix(self.folder + "/")  # libraries are linked by path
            if word.endswith(".a") and not os.path.isabs(word) and replaced in self.objects_of(word):
                words += [by if name == replaced else name for name in self.objects_of(word)]
            else:
                words.append(word)
        # A library may occur twice, its objects only once.
        seen, unique = set(), []
        for word in words:
            if not (word.endswith(".o") and word in seen):
                unique.append(word)
            seen.add(word)
        unique[unique.index("-o") + 1] = program
        if by not in unique:
            raise ValueError(f"{replaced} is not part of the test program")
        subprocess.run(unique, cwd=self.folder, check=True)
        return program


def passes(program, tests):
    """Whether `program` passes the tests of the files with these prefixes before the time limit."""
    try:
        files = ",".join(f"*tests/{name.strip()}*" for name in tests.split(","))
        done = subprocess.run([program, "--source-file=" + files, "--abort-after=1"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 0 and "test cases:    0" in done.stdout:
        raise ValueError(f"there are no tests in {tests}")
    return done.returncode == 0


def survives(build, change):
    program = build.link_with(*build.compile(change["file"], changed_text(change)))
    return passes(program, change["tests"])


def try_random(build, given):
    modules = [given.module] if given.module else random_mutants.MODULES
    noticed, tried = dict.fromkeys(modules, 0), dict.fromkeys(modules, 0)
    for change in random_mutants.draw(ROOT, modules, given.seed):
        if sum(tried.values()) == given.random:
            break
        module = change["module"]
        if tried[module] > min(tried.values()):
            continue  # a folder whose change did not compile gets another one first
        try:
            program = build.link_with(*build.compile(change["file"], change["text"]))
        except ValueError:
            continue
        tried[module] += 1
        survived = all(passes(program, tests) for tests in change["tests"])
        noticed[module] += not survived
        print(f"{'SURVIVED ' if survived else 'noticed  '} {change['file']}:{change['line']}: {change['why'][0]}: "
              f"{change['old'][0]}", flush=True)
    for module in modules:
        print(f"{module}: {noticed[module]} of {tried[module]} noticed")
    return sum(tried.values()) - sum(noticed.values())


def mistakes(changes):
    """Mistakes in the list that can be found without a build."""
    for change in changes:
        try:
            changed_text(change)
        except (ValueError, OSError) as error:
            yield f"mutants.txt:{change['line']}: {error}"
        for name in change["tests"].split(","):
            if not glob.glob(os.path.join(ROOT, "tests", name.strip() + "*")):
                yield f"mutants.txt:{change['line']}: no test file has the prefix tests/{name.strip()}"


def main(arguments):
    if arguments == ["--list"]:
        wrong = list(mistakes(read_list(os.path.join(HERE, "mutants.txt"))))
        print("\n".join(wrong))
        sys.exit(1 if wrong else 0)
    if "--random" in arguments:
        parser = argparse.ArgumentParser()
        parser.add_argument("build")
        parser.add_argument("--random", type=int)
        parser.add_argument("--seed", default="0")
        parser.add_argument("module", nargs="?")
        given = parser.parse_intermixed_args(arguments)
        sys.exit(1 if try_random(Build(given.build), given) else 0)
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("count", nargs="?", type=int)
    parser.add_argument("number", nargs="?", default="0", metavar="SEED")
    parser.add_argument("--file", default="")
    given = parser.parse_intermixed_args(arguments)
    changes = [c for c in read_list(os.path.join(HERE, "mutants.txt")) if given.file in c["file"]]
    chosen = changes
    if given.count is not None and given.count < len(changes):
        chosen = random.Random(given.number).sample(changes, given.count)
    build = Build(given.build)
    survivors, wrong = [], []
    for change in chosen:
        name = f"mutants.txt:{change['line']}: {change['file']}: {' '.join(change['why'])}"
        try:
            survived = survives(build, change)
        except ValueError as error:
            wrong.append(name)
            print(f"WRONG     {name}: {error}", flush=True)
            continue
        if survived:
            survivors.append(name)
        print(f"{'SURVIVED ' if survived else 'noticed  '} {name}", flush=True)
    print(f"{len(chosen)} changes: {len(chosen) - len(survivors) - len(wrong)} noticed, {len(survivors)} survived"
          + (f", {len(wrong)} are wrong in the list" if wrong else ""))
    sys.exit(1 if survivors or wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
