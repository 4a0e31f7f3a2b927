"""The documents: what they and the sources refer to exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
DOCUMENTS = [name for name in TRACKED if name.endswith(".md")]
SOURCES = {".h", ".cc", ".c", ".py", ".pyi", ".java", ".cmake", ".toml", ".md", ".ipynb"}
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")


def _anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_of_a_document_leads_somewhere(name: str) -> None:
    for path, anchor in LINK.findall((ROOT / name).read_text(encoding="utf-8")):
        if path.startswith(("http:", "https:")):
            continue
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), f"{name} links to {path}"
        assert not anchor or anchor in _anchors(target), f"{name} links to {path}#{anchor}"


def test_every_document_that_a_source_names_is_in_the_tree() -> None:
    unknown = []
    for name in TRACKED:
        if Path(name).suffix in SOURCES:
            for found in re.findall(r"[\w./-]*\w\.md\b", (ROOT / name).read_text(encoding="utf-8")):
                ending = "/" + found.lstrip("./")
                if not any(f"/{document}".endswith(ending) for document in DOCUMENTS):
                    unknown.append(f"{name}: {found}")
    assert not unknown, "\n".join(unknown)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 10_000
