"""The gallery: each example with what it shows, its command, and a picture or what it prints."""
import glob
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = 120  # an example that takes longer, or needs data that is not here, has no picture


def question_of(path):
    """The comment at the top of a scenario."""
    lines = []
    with open(path) as file:
        for line in file:
            if line.startswith("# yaml-language-server"):
                continue
            if not line.startswith("#"):
                break
            if not line.startswith("#   "):  # a command, which the gallery shows for itself
                lines.append(line[1:].strip())
    return " ".join(lines)


def picture_of(baechi, path, folder, name):
    """Runs the scenario and draws it: the name of an SVG in `folder`, or why there is none."""
    work = os.path.join(folder, name)
    try:
        for command in (["run", path, "--out", work, "--quiet"], ["report", work, "--plots"]):
            done = subprocess.run([baechi, *command], timeout=SECONDS, text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
            if done.returncode != 0:
                return None, done.stderr.strip().splitlines()[0]
    except subprocess.TimeoutExpired:
        return None, f"takes more than {SECONDS // 60} minutes"
    for kind in ("step_time.*", "value.*", "step.*", "*"):
        plots = sorted(glob.glob(f"{work}/plots/{kind}.svg"))
        if plots:
            return plots[0], ""
    return None, "nothing to draw"


def write_gallery(baechi, root, docs):
    examples = f"{root}/scenarios/examples"
    pictures = f"{docs}/gallery"
    os.makedirs(pictures)
    text = ("# Gallery\n\nEvery example of `scenarios/examples`. A scenario's name is enough: `baechi run first`.\n\n"
            "## Scenarios\n\n")
    with tempfile.TemporaryDirectory() as work:
        scenarios = sorted(glob.glob(f"{examples}/*.yaml"))
        for number, path in enumerate(scenarios, 1):
            name = os.path.splitext(os.path.basename(path))[0]
            print(f"gallery: {name}, {number} of {len(scenarios)}", file=sys.stderr)
            with open(path) as file:
                source = file.read()
            text += f"### {name}\n\n{question_of(path)}\n\n"
            codesign = re.search(r"(?m)^(area|codesign|accelerator|search):", source) and "placers:" not in source
            command = f"baechi study codesign scenarios/examples/{name}.yaml" if codesign else f"baechi run {name}"
            text += f"    {command}\n\n"
            if not codesign:
                plot, why = picture_of(baechi, path, work, name)
                if plot:
                    shutil.copy(plot, f"{pictures}/{name}.svg")
                    text += f"![{name}: step times](gallery/{name}.svg)\n\n"
                else:
                    text += f"*No picture: {html.escape(why)}.*\n\n"
            text += f'??? note "{name}.yaml"\n\n' + "".join(
                f"    {line}\n" for line in ["```yaml", *source.rstrip().splitlines(), "```"]) + "\n"
    text += "## Transcripts\n\nCommands and what they print; a test repeats them.\n\n"
    for path in sorted(glob.glob(f"{examples}/*.transcript")):
        name = os.path.splitext(os.path.basename(path))[0]
        with open(path) as file:
            source = file.read()
        text += f"### {name.replace('_', ' ')}\n\n{question_of(path)}\n\n```console\n{source.rstrip()}\n```\n\n"
    text += "## Placers of your own\n\n"
    for path in sorted(glob.glob(f"{examples}/*.py")):
        name = os.path.basename(path)
        with open(path) as file:
            source = file.read()
        said = re.search(r'"""(.*?)"""', source, re.S)
        text += f"### {name}\n\n{said[1].strip() if said else ''}\n\n```python\n{source.rstrip()}\n```\n\n"
    with open(f"{docs}/gallery.md", "w") as file:
        file.write(text)
