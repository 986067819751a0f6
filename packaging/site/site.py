#!/usr/bin/env python3
"""site.py BAECHI OUT: makes the site in OUT from the pages of the repository, the notebooks, the examples and what the
program says of itself; with mkdocs and mkdocs-material. OUT/index.html opens from a disk, without network, search
included. Then every link is checked; exit code 1, and a line for each that leads nowhere."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from gallery import write_gallery
from links import broken_links
from notebook import page_of_notebook

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BAECHI, OUT = (os.path.abspath(path) for path in sys.argv[1:3])
NOTEBOOKS = ["baechi_in_an_hour", "an_idea_of_your_own", "my_model_on_my_gpus", "my_model_on_two_small_gpus"]
# What is a page of its own on the site.
RENDERED = {"scenarios/examples": "gallery.md", "python/notebooks": f"notebooks/{NOTEBOOKS[0]}.md"}
VERBS = [["fit", "place", "simulate", "explain", "bound", "what-if", "plan"],
         ["run", "merge", "compare", "report", "arena", "arena duel"],
         ["study codesign", "study configure", "paper"],
         ["validate", "validate plan", "validate replay", "validate calibrate", "validate report", "validate published",
          "validate fit", "validate torch"],
         ["trace info", "trace check", "trace convert", "trace generate", "list", "schema"]]


def printed(*arguments):
    return subprocess.run([BAECHI, *arguments], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


def tracked():
    """The files of the repository; where it is no checkout of git, all but what builds and runs write."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode == 0:
        return listed.stdout.split()
    paths = []
    for folder, folders, names in os.walk(ROOT):
        written = {".git", "build", "results"} if folder == ROOT else {"__pycache__"}
        folders[:] = [name for name in folders if name not in written]
        paths += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(paths)


def title_of(path):
    with open(path) as file:
        return next((line[2:].strip() for line in file if line.startswith("# ")), os.path.basename(path))


def copy_pages(docs):
    """Every page where it is in the repository, and the files and folders that pages link to. A folder's page lists
    its files. Tables are preceded by an empty line, which mkdocs wants."""
    pages = [path for path in tracked() if path.endswith(".md") and not path.startswith("tests/")]
    linked = set()
    for path in pages:
        with open(os.path.join(ROOT, path)) as file:
            text = file.read()
        here = os.path.dirname(path)

        def follow(match):
            target, _, anchor = match[1].partition("#")
            if not target or target.startswith("http"):
                return match[0]
            full = os.path.normpath(os.path.join(here, target))
            if full in RENDERED:
                full = RENDERED[full]
            elif os.path.isdir(os.path.join(ROOT, full)):
                full += "/README.md" if os.path.exists(os.path.join(ROOT, full, "README.md")) else "/FILES.md"
                linked.add(full)
            elif not full.endswith(".md"):
                linked.add(full)
            where = os.path.relpath(full, here or ".")
            return f"]({where}{'#' + anchor if anchor else ''})"

        text = re.sub(r"\]\(([^)\s]+)\)", follow, text)
        text = re.sub(r"(?m)^(?!\|)(.*\S.*)\n(?=\|.*\|\n\| ?:?-)", r"\1\n\n", text)
        text = re.sub(r"(?m)^(?![-*] |  |\|)(.*\S.*)\n(?=- )", r"\1\n\n", text)
        to = os.path.join(docs, path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with open(to, "w") as file:
            file.write(text)
    for path in sorted(linked):
        to = os.path.join(docs, path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if path.endswith("/FILES.md"):
            folder = os.path.dirname(path)
            names = sorted(name for name in tracked() if os.path.dirname(name) == folder)
            with open(to, "w") as file:
                file.write(f"# {folder}\n\n" + "".join(f"- `{name}`\n" for name in names))
        elif not path.endswith(".md"):
            shutil.copy(os.path.join(ROOT, path), to)
    return pages


def write_manual(docs):
    """A page for each verb: its help."""
    os.makedirs(f"{docs}/manual")
    entries = []
    for verb in (verb for group in VERBS for verb in group):
        name = verb.replace(" ", "_")
        with open(f"{docs}/manual/{name}.md", "w") as file:
            file.write(f"# baechi {verb}\n\n```text\n{printed(*verb.split(), '--help').rstrip()}\n```\n")
        entries.append((f"baechi {verb}", f"manual/{name}.md"))
    with open(f"{docs}/manual/scenarios.md", "w") as file:
        file.write(printed("schema", "--reference"))
    with open(f"{docs}/manual/components.md", "w") as file:
        file.write("# All components\n\n" + printed("list", "--format", "markdown"))
    return entries


def nav(pages, manual):
    def entry(path):
        return (title_of(os.path.join(ROOT, path)), path)

    papers = [entry(path) for path in pages if path.startswith("scenarios/papers/")]
    notes = {path for path in pages if path.startswith("notes/")}
    named = {"README.md", "QUESTIONS.md", "CHANGELOG.md", "STABLE.md", "cli/README.md", "validate/README.md", *notes,
             *(p for _, p in papers)}
    developers = {"ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md"}
    references = [("All components", "manual/components.md"), ("All keys of a scenario", "manual/scenarios.md")] + [
        entry(path) for path in pages if path not in named | developers and not path.endswith("PROVENANCE.md")]
    return [("Home", "README.md"),
            ("Notebooks",
             [(name.replace("_", " ").capitalize(), f"notebooks/{name}.md") for name in NOTEBOOKS]),
            ("Gallery", "gallery.md"),
            ("Manual", [("The verbs at length", "cli/README.md"), *manual]),
            ("References", references),
            ("Papers", papers),
            ("Questions", "QUESTIONS.md"),
            ("How true", "validate/README.md"),
            ("Notes", [entry(path) for path in sorted(notes)]),
            ("Changes", [("What is stable", "STABLE.md"), ("Changes", "CHANGELOG.md")]),
            ("For developers", [entry(path) for path in sorted(developers)])]


def nav_text(entries, indent="  "):
    text = ""
    for title, target in entries:
        quoted = "'" + title.replace("'", "''") + "'"
        if isinstance(target, str):
            text += f"{indent}- {quoted}: {target}\n"
        else:
            text += f"{indent}- {quoted}:\n{nav_text(target, indent + '    ')}"
    return text


def search_from_a_disk(out):
    """Browsers neither fetch a file nor start a worker from a disk: the index becomes a script, and the worker a
    frame (offline.js)."""
    with open(f"{out}/search/search_index.json") as file:
        index = file.read()
    with open(f"{out}/search/search_index.js", "w") as file:
        file.write(f"var __search = {{index: Promise.resolve({index})}};\n")
    shutil.copy(f"{HERE}/offline.js", f"{out}/assets/offline.js")
    for folder, _, names in os.walk(out):
        for name in names:
            if not name.endswith(".html"):
                continue
            path = os.path.join(folder, name)
            base = os.path.relpath(out, folder)
            with open(path) as file:
                text = file.read()
            scripts = "".join(f'<script src="{base}/{s}"></script>' for s in ("search/search_index.js",
                                                                               "assets/offline.js"))
            text = re.sub(r"(<script src=\"[^\"]*assets/javascripts/bundle)", lambda m: scripts + m[1], text, count=1)
            with open(path, "w") as file:
                file.write(text)


def main():
    with tempfile.TemporaryDirectory() as work:
        docs = f"{work}/docs"
        pages = copy_pages(docs)
        os.makedirs(f"{docs}/notebooks")
        for name in NOTEBOOKS:
            page_of_notebook(f"{ROOT}/python/notebooks/{name}.ipynb", f"{docs}/notebooks")
        shutil.copy(f"{HERE}/site.css", docs)
        write_gallery(BAECHI, ROOT, docs)
        print("pages and links", file=sys.stderr)
        manual = write_manual(docs)
        with open(f"{work}/mkdocs.yml", "w") as file:
            with open(f"{HERE}/mkdocs.yml") as settings:
                file.write(settings.read() + "nav:\n" + nav_text(nav(pages, manual)))
        done = subprocess.run(["mkdocs", "build", "--quiet", "-f", f"{work}/mkdocs.yml", "-d", OUT], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(done.stdout)
    search_from_a_disk(OUT)
    broken = broken_links(OUT)
    print("\n".join(broken) or f"{OUT}/index.html: every link leads somewhere")
    sys.exit(1 if broken else 0)


main()
