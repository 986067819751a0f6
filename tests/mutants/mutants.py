#!/usr/bin/env python3
"""Mutation tests: applies small changes to the program, one at a time, and lists those that no test detects.

mutants.py BUILD [N [SEED]] [--file PART]: BUILD is a build folder of the preset `quick` (or `test`). With N, a random N of the
changes, drawn with SEED. With --file, only changes of files whose path contains PART.

mutants.py --list: without building, lists changes whose old text does not occur exactly once in the file, or that have no tests.

mutants.py BUILD --random N [--seed S] [FOLDER...]: N random changes (random_mutants.py), in equal numbers from sim, placers,
traces and scenarios, or from each FOLDER, such as sim/pipeline. All are compiled into one program, where an environment
variable chooses one; those that do not compile are left out. A change is tried with the test cases of its top folder that
reach it, the quickest first, until one fails or hangs. UNREACHED: none reaches it. The last lines are the score of each
folder. Survivors need a review: equivalent mutants are listed in equivalent.txt, with the reason.

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
import re
import shlex
import subprocess
import sys
import time

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

    def compile(self, texts, options=()):
        """Compiles files with other texts. By object, relative to the build folder: the one that replaces it."""
        by_command, replaced = {}, {}
        for file in texts:
            command = self.compilation(file)
            by_command.setdefault(command["file"], (command, []))[1].append(file)
        errors = ""
        for number, (source, (command, files)) in enumerate(sorted(by_command.items())):
            unity = open(source).read() if "/Unity/" in source else None
            for file in files:
                changed = os.path.join(self.scratch, file.replace("/", "__"))
                open(changed, "w").write(texts[file])
                if unity is not None:
                    unity = unity.replace(f'"{os.path.join(ROOT, file)}"', f'"{changed}"')
            if unity is not None:
                changed = os.path.join(self.scratch, f"unity_{number}.cxx")
                open(changed, "w").write(unity)
            words = [word for word in shlex.split(command["command"]) if word != "-Werror"]
            place = words.index("-o") + 1
            old = os.path.relpath(os.path.join(command["directory"], words[place]), self.folder)
            replaced[old] = words[place] = os.path.join(self.scratch, f"changed_{number}.o")
            words = [changed if word == source else word for word in words]
            done = subprocess.run(words + list(options), cwd=command["directory"], text=True, stderr=subprocess.PIPE)
            if done.returncode != 0:
                errors += done.stderr
        if errors:
            raise ValueError("it does not compile: " + errors)
        return replaced

    def objects_of(self, library):
        if library not in self.objects:
            lines = self.ninja("-t", "query", library).splitlines()
            self.objects[library] = [line.strip() for line in lines if line.strip().endswith(".o")]
        return self.objects[library]

    def link_with(self, replaced):
        """Links the test program with these objects, instead of the archives that contain the replaced ones."""
        program = os.path.join(self.scratch, "baechi_tests")
        words = []
        for word in shlex.split(self.link.split(" && ")[1] if " && " in self.link else self.link):
            archive = word.rpartition(self.folder + "/")[2]  # libraries are linked by path
            if word.endswith(".a") and not os.path.isabs(archive) and replaced.keys() & set(self.objects_of(archive)):
                words += [replaced.get(name, name) for name in self.objects_of(archive)]
            else:
                words.append(word)
        # A library may occur twice, its objects only once.
        unique = [word for i, word in enumerate(words) if not word.endswith(".o") or word not in words[:i]]
        unique[unique.index("-o") + 1] = program
        if not set(replaced.values()) <= set(unique):
            raise ValueError(f"{', '.join(replaced)}: not part of the test program")
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
    program = build.link_with(build.compile({change["file"]: changed_text(change)}))
    return passes(program, change["tests"])


def compiled(build, changes):
    """Links the test program with all changes that compile: the program, and these changes."""
    header = os.path.join(build.scratch, "mutant.h")
    open(header, "w").write(random_mutants.HEADER)
    for number, change in enumerate(changes):
        change["number"] = number  # stays, so that what compiled is not compiled again
    while True:
        texts = {file: random_mutants.with_changes(ROOT, file, [c for c in changes if c["file"] == file])
                 for file in {change["file"] for change in changes}}
        try:
            # With assertions of the library, a change that reads behind the end of a vector is noticed.
            options = ["-include", header, "-O1", "-w", "-D_GLIBCXX_ASSERTIONS"]
            return build.link_with(build.compile(texts, options)), changes
        except ValueError as error:
            wrong = set(re.findall(r"/([^/ ]+\.cpp):(\d+):", str(error)))
            left = [c for c in changes if not any((c["file"].replace("/", "__"), str(line)) in wrong for line in c["lines"])]
            if len(left) == len(changes):
                raise
            print(f"{len(changes) - len(left)} of {len(changes)} do not compile", flush=True)
            changes = left


def equivalent(path):
    """The changes in equivalent.txt, as name_of() has them."""
    return {line.rstrip("\n") for line in open(path) if not line.startswith(("#", " "))}


def name_of(change):
    return f"{change['file']}: {change['why']}: {change['old']}"


def try_random(build, given):
    modules = given.module or random_mutants.MODULES
    each = -(-given.random // len(modules))
    left_out = equivalent(os.path.join(HERE, "equivalent.txt"))
    drawn = [change for module in modules for change in random_mutants.draw(ROOT, module, each * 5 // 4, given.seed)
             if name_of(change) not in left_out]
    program, changes = compiled(build, drawn)
    cases, reach, used = {}, {}, {}  # by test file: its test cases; by those: the changes that they reach; how long they take

    def arguments(case):
        return [program, f"--source-file=*/{case[0]}", f"--first={case[1]}", f"--last={case[1]}", "--abort-after=1"]

    def run(case, environment, limit):
        started = time.monotonic()
        try:
            done = subprocess.run(arguments(case), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment,
                                  timeout=limit)
        except subprocess.TimeoutExpired:
            return False
        used.setdefault(case, time.monotonic() - started)
        return done.returncode == 0

    def reached(test):
        if test not in cases:
            told = subprocess.run([program, f"--source-file=*/{test}", "--count"], check=True, text=True, stdout=subprocess.PIPE)
            cases[test] = [(test, k + 1) for k in range(int(told.stdout.split()[-1]))]
        for case in cases[test]:
            if case not in reach:
                path = os.path.join(build.scratch, "reached")
                open(path, "w").close()
                passed = run(case, {"BAECHI_MUTANTS_REACHED": path}, TIME_LIMIT_S)
                reach[case] = set(map(int, open(path))) if passed else set()
                if not passed:
                    print(f"test case {case[1]} of {test} fails without a change: it is left out", flush=True)
        return cases[test]

    noticed, tried = dict.fromkeys(modules, 0), dict.fromkeys(modules, 0)
    for change in changes:
        module = change["module"]
        if tried[module] == each:
            continue
        tried[module] += 1
        tests = sorted((case for test in random_mutants.test_files(ROOT, change["file"]) for case in reached(test)
                        if change["number"] in reach[case]), key=lambda case: used[case])
        by = next((case for case in tests if not run(case, {"BAECHI_MUTANT": str(change["number"])}, 20 + 10 * used[case])), "")
        noticed[module] += by != ""
        print(f"{'noticed  ' if by else 'SURVIVED ' if tests else 'UNREACHED'} {change['file']}:{change['lines'][0]}: "
              f"{change['why']}: {change['old']}{' | ' + by[0] if by else ''}", flush=True)
    for module in modules:
        print(f"{module}: {noticed[module]} of {tried[module]} noticed")
    return sum(tried.values()) - sum(noticed.values())


def mistakes(changes):
    """Mistakes in the lists that can be found without a build."""
    for line in equivalent(os.path.join(HERE, "equivalent.txt")):
        file, _, old = line.split(": ", 2)
        if old not in open(os.path.join(ROOT, file)).read():
            yield f"equivalent.txt: {file} has no '{old}'"
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
        parser.add_argument("module", nargs="*")
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
