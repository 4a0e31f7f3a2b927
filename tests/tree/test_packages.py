"""What the extras of pyproject.toml bring."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _imported(notebook: Path) -> Iterator[str]:
    """The modules, as far as the first dot."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        code = "".join(line for line in cell["source"] if not line.startswith(("%", "!")))
        for node in ast.walk(ast.parse(code)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            yield from (name.partition(".")[0] for name in names)


def test_the_extra_notebook_brings_what_the_notebooks_import() -> None:
    requirements = runpy.run_path(str(ROOT / ".ci" / "requirements.py"))["requirements"]
    brought = {re.split(r"[^\w.-]", entry)[0].lower() for entry in requirements(["notebook"])}
    distributions = packages_distributions()
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert notebooks
    for notebook in notebooks:
        for module in set(_imported(notebook)) - set(sys.stdlib_module_names) - {"lwmq_spark"}:
            assert brought & {name.lower() for name in distributions[module]}, (notebook.name, module)
