"""plain.py RUN NOTEBOOK [--check]: writes the executed notebook RUN to NOTEBOOK without output that varies between runs.
With --check writes nothing: prints the first line that differs (placing times are ignored), with exit code 1."""
import json
import re
import sys


def plain(path):
    with open(path) as file:
        notebook = json.load(file)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] != "code":
            continue
        cell["execution_count"] = None
        for output in cell["outputs"]:
            output.pop("execution_count", None)
            if output["output_type"] == "execute_result":
                output["execution_count"] = None
            output.get("data", {}).pop("text/plain", None) if "image/png" in output.get("data", {}) else None
    notebook["metadata"] = {"kernelspec": notebook["metadata"]["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def shown(notebook):
    """The text output of the cells without placing times: those of `place`, at line ends of `compare`, and in column 14
    of results.csv."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = output.get("text", output.get("data", {}).get("text/plain", ""))
            for line in "".join(text).splitlines():
                line = re.sub(r"^(placer +\S+), .*|^((?:[^,]*,){13})[^,]*|  +[0-9.]+ (?:ns|us|ms|s) *$", r"\1\2", line.rstrip())
                yield line[:120]


run = plain(sys.argv[1])
if sys.argv[3:] == ["--check"]:
    for now, then in zip(list(shown(run)) + ["the end"], list(shown(plain(sys.argv[2]))) + ["the end"]):
        if now != then:
            sys.exit(f"{sys.argv[2]} shows '{then}', and now '{now}': ./dev python notebooks")
else:
    with open(sys.argv[2], "w") as file:
        json.dump(run, file, indent=1, ensure_ascii=False)
        file.write("\n")
