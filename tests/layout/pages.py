"""pages.py ROOT PROGRAM: checks the Markdown pages of the repository. Prints one line per fault; exit code 1 if there are any.
- Links lead to a file, or to a heading of a page.
- Paths in backticks that begin with a folder of the repository exist; source files named without a folder exist somewhere.
- `baechi VERB --flag ...`: the verb exists, and its help has the flag.
"""

import os
import re
import subprocess
import sys

root, program = sys.argv[1], sys.argv[2]
os.chdir(root)
# Files that commands on the pages write or that readers provide; and a folder of an old release.
external = {"step.json", "mine.py", "placement.json", "my.yaml", "duel.yaml", "sim/scenario/"}


def files():
    skipped = {"build", ".git", "results"}
    for folder, folders, names in os.walk("."):
        folders[:] = [f for f in folders if f not in skipped]
        for name in names:
            yield os.path.normpath(os.path.join(folder, name))


tracked = set(files())
folders = {part for f in tracked for part in [os.path.dirname(f)] if part}
tops = {f.split("/")[0] for f in tracked if "/" in f}
faults = []


def anchors(page):
    found = set()
    for line in open(page):
        if match := re.match(r"#+ (.*)", line):
            found.add(re.sub(r"[^\w\- ]", "", match[1].lower()).strip().replace(" ", "-"))
    return found


def check_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(full):
            faults.append(f"{page}: link {target}")
        elif anchor and full.endswith(".md") and anchor not in anchors(full):
            faults.append(f"{page}: no such heading: {target}")


def check_paths(page, text):
    here = os.path.dirname(page)
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for word in re.findall(r"[A-Za-z0-9_.\-/*{},]+/[A-Za-z0-9_.\-/*{},]*", quoted):
            word = word.rstrip(".,")
            plain = word.replace("README", "").replace("PROVENANCE", "")
            if word.split("/")[0] not in tops or re.search(r"[*{}A-Z]", plain) or word in external:
                continue
            if not os.path.exists(word) and not os.path.exists(os.path.join(here, word)):
                faults.append(f"{page}: `{word}`")
    for word in re.findall(r"`([a-z0-9_/]+\.(?:h|cpp|py|yaml|transcript|sh|cu|rules))`", text):
        if word.split("/")[0] not in tops and word not in external:
            if not any(f == word or f.endswith("/" + word) for f in tracked):
                faults.append(f"{page}: no file is called `{word}`")


helps = {}


def help_of(verb):
    if verb not in helps:
        run = subprocess.run([program, *verb.split(), "--help"], capture_output=True, text=True)
        helps[verb] = run.stdout if run.returncode == 0 else None
    return helps[verb]


def check_commands(page, text):
    text = re.sub(r"\\\n\s*", " ", text)
    for command in re.findall(r"(?:^ {4}|`|\| )baechi ([a-z][^`\n#|]*)", text, re.M):
        words = command.split()
        verb = " ".join(words[:2]) if words[0] in ("arena", "study") and words[1:] == ["duel"] else words[0]
        help_text = help_of(verb)
        if help_text is None:
            faults.append(f"{page}: no verb: baechi {command}")
            continue
        inner = " ".join(words[:2])
        if len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]) and help_of(inner):
            help_text += help_of(inner)
        for flag in re.findall(r"(?<= )--[a-z][a-z-]+", " " + command):
            if flag not in help_text:
                faults.append(f"{page}: no such flag: {flag} of baechi {verb}")


for page in sorted(f for f in tracked if f.endswith(".md")):
    with open(page) as file:
        content = file.read()
    check_links(page, content)
    if page != "CHANGELOG.md":  # it names removed files
        check_paths(page, content)
        check_commands(page, content)
print("\n".join(faults))
sys.exit(1 if faults else 0)
