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


def command_of(path):
    """The command in the comment at the top of a scenario, else that which runs it by its name."""
    with open(path) as file:
        said = re.search(r"(?m)^#   baechi (.*)", file.read())
    return said[1] if said else f"run {os.path.splitext(os.path.basename(path))[0]}"


def run(baechi, root, arguments):
    """What the command prints, and what it says is wrong."""
    try:
        done = subprocess.run([baechi, *arguments], cwd=root, timeout=SECONDS, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=dict(os.environ, COLUMNS="100"))
    except subprocess.TimeoutExpired:
        return "", f"takes more than {SECONDS // 60} minutes"
    return done.stdout, "" if done.returncode == 0 else done.stderr.strip().splitlines()[0].replace(root + "/", "")


def shown(baechi, root, command, work):
    """Runs the command in `root`: (an SVG that shows its answer or None, what it prints, why there is neither)."""
    verb = command.split()[0]
    if verb != "run":
        text, why = run(baechi, root, [*command.split(), *(["-o", work] if verb == "study" else [])])
        return next(iter(sorted(glob.glob(f"{work}/*.svg"))), None), text, why
    _, why = run(baechi, root, [*command.split(), "--out", work, "--quiet"])
    if not why:
        _, why = run(baechi, root, ["report", work, "--plots"])
    plots = [plot for kind in ("step_time.*", "value.*", "step.*", "*") for plot in sorted(glob.glob(f"{work}/plots/{kind}.svg"))]
    return (plots[0] if plots else None), "", why or ("" if plots else "nothing to draw")


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
            command = command_of(path)
            text += f"    baechi {command}\n\n"
            plot, printed, why = shown(baechi, root, command, os.path.join(work, name))
            if plot:
                shutil.copy(plot, f"{pictures}/{name}.svg")
                text += f"![{name}, drawn](gallery/{name}.svg)\n\n"
            elif printed:
                text += f"```text\n{printed.rstrip()}\n```\n\n"
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
