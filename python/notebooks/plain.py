"""plain.py RUN NOTEBOOK: writes the notebook RUN to NOTEBOOK without what changes from run to run."""
import json
import sys

with open(sys.argv[1]) as file:
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
with open(sys.argv[2], "w") as file:
    json.dump(notebook, file, indent=1, ensure_ascii=False)
    file.write("\n")
