#!/usr/bin/env python3
"""site.py BAECHI OUT: makes the site in OUT from the pages of the repository, the notebooks, the examples and what the
program says of itself; with mkdocs and mkdocs-material. OUT/index.html opens from a disk, without network, search
included. Then every link is checked; exit code 1, and a line for each that leads nowhere."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
         ["validate", "validate plan", "validate calibrate", "validate report", "validate published",
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
    return sorted(path for path in glob.glob("**/*", root_dir=ROOT, recursive=True)
                  if not re.match("(build|results)/", path) and os.path.isfile(os.path.join(ROOT, path)))


def title_of(path):
    with open(path) as file:
        return next((line[2:].strip() for line in file if line.startswith("# ")), os.path.basename(path))


def copy_pages(docs):
    """Every page where it is in the repository, and the files and folders that pages link to. A folder's page lists
    its files. Tables are preceded by an empty line, which mkdocs wants."""
    pages = [path for path in tracked() if path.endswith(".md") and not path.startswith("tests/")]
    linked = set()
    for path in pages:
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

        text = re.sub(r"\]\(([^)\s]+)\)", follow, Path(ROOT, path).read_text())
        text = re.sub(r"(?m)^(?!\|)(.*\S.*)\n(?=\|.*\|\n\| ?:?-)", r"\1\n\n", text)
        text = re.sub(r"(?m)^(?![-*] |  |\|)(.*\S.*)\n(?=- )", r"\1\n\n", text)
        to = os.path.join(docs, path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        Path(to).write_text(text)
    for path in sorted(linked):
        to = os.path.join(docs, path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if path.endswith("/FILES.md"):
            folder = os.path.dirname(path)
            names = sorted(name for name in tracked() if os.path.dirname(name) == folder)
            Path(to).write_text(f"# {folder}\n\n" + "".join(f"- `{name}`\n" for name in names))
        elif not path.endswith(".md"):
            shutil.copy(os.path.join(ROOT, path), to)
    return pages


def write_manual(docs):
    """A page for each verb: its help."""
    os.makedirs(f"{docs}/manual")
    entries = []
    for verb in (verb for group in VERBS for verb in group):
        name = verb.replace(" ", "_")
        Path(docs, "manual", f"{name}.md").write_text(
            f"# baechi {verb}\n\n```text\n{printed(*verb.split(), '--help').rstrip()}\n```\n")
        entries.append((f"baechi {verb}", f"manual/{name}.md"))
    Path(docs, "manual", "scenarios.md").write_text(printed("schema", "--reference"))
    Path(docs, "manual", "components.md").write_text("# All components\n\n" + printed("list", "--format", "markdown"))
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
    index = Path(out, "search", "search_index.json").read_text()
    Path(out, "search", "search_index.js").write_text(f"var __search = {{index: Promise.resolve({index})}};\n")
    shutil.copy(f"{HERE}/offline.js", f"{out}/assets/offline.js")
    for page in Path(out).rglob("*.html"):
        base = os.path.relpath(out, page.parent)
        scripts = "".join(f'<script src="{base}/{s}"></script>' for s in ("search/search_index.js", "assets/offline.js"))
        page.write_text(re.sub(r"(<script src=\"[^\"]*assets/javascripts/bundle)", lambda m: scripts + m[1],
                               page.read_text(), count=1))


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
        Path(work, "mkdocs.yml").write_text(Path(HERE, "mkdocs.yml").read_text() + "nav:\n" + nav_text(nav(pages, manual)))
        done = subprocess.run(["mkdocs", "build", "--quiet", "-f", f"{work}/mkdocs.yml", "-d", OUT], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(done.stdout)
    search_from_a_disk(OUT)
    broken = broken_links(OUT)
    print("\n".join(broken) or f"{OUT}/index.html: every link leads somewhere")
    sys.exit(1 if broken else 0)


main()
