"""A notebook, as it was run, as a page with its pictures."""
import base64
import json
import os
import re
import shutil


def page_of_notebook(path, folder):
    """Writes FOLDER/NAME.md, its pictures and the notebook itself."""
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path) as file:
        cells = json.load(file)["cells"]
    text = ""
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text += re.sub(r"\((\w+)\.ipynb\)", r"(\1.md)", source) + "\n\n"
            if number == 0:
                text += f"[The notebook]({name}.ipynb), as a file to run.\n\n"
            continue
        text += f"```python\n{source}\n```\n\n"
        for count, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}_{number}_{count}.png"
                with open(f"{folder}/{picture}", "wb") as file:
                    file.write(base64.b64decode(data["image/png"]))
                text += f"![]({picture})\n\n"
            else:
                shown = "".join(output.get("text", data.get("text/plain", "")))
                text += f"```text\n{shown.rstrip()}\n```\n\n"
    with open(f"{folder}/{name}.md", "w") as file:
        file.write(text)
    shutil.copy(path, folder)
