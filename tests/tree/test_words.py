"""What importing pulls in, which words the documents explain, and what the tree holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# One noun per thing, one verb per arrow: the vocabulary of the journey of one message.
NOUNS = [
    "channel",
    "transport",
    "provider",
    "filter",
    "message",
    "frame",
    "buffer",
    "window",
    "queue",
    "scheduler",
    "stream",
    "endpoint",
    "partition",
    "flow",
    "lease",
    "generation",
]
VERBS = ["post", "collect", "encode", "acquire", "ship", "land", "decode", "deliver", "receive", "release"]
OWNERSHIP = ["takes", "lends", "keeps"]


@pytest.fixture(scope="module")
def architecture() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("word", NOUNS + VERBS + OWNERSHIP)
def test_the_glossary_has_the_word(word: str, architecture: str) -> None:
    assert "glossary" in architecture
    glossary = architecture[architecture.rindex("glossary") :]
    start = architecture.index("glossary")
    assert re.search(rf"\b{word}s?\b", architecture[start:] or glossary), f"{word} is not in the glossary"


def test_importing_the_package_pulls_in_neither_pyarrow_nor_pyspark() -> None:
    code = (
        "import sys, lwmq_spark\n"
        "heavy = {'pyarrow', 'pyspark', 'pandas', 'numpy', 'typer', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'import lwmq_spark pulled in {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_every_public_name_is_listed_and_exists() -> None:
    import lwmq_spark

    assert sorted(set(lwmq_spark.__all__)) == sorted(lwmq_spark.__all__)
    for name in lwmq_spark.__all__:
        assert getattr(lwmq_spark, name) is not None, name


def _tracked() -> list[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.split("\0") if name]


def test_the_top_level_is_the_fixed_one() -> None:
    folders = {"lwmq_spark", "native", "jvm", "notebooks", "tests", "conf"}
    documents = {
        f"{name}.md" for name in ("README", "ARCHITECTURE", "DECISIONS", "CHANGELOG", "CONTRIBUTING")
    }
    allowed = folders | documents | {"pyproject.toml", "Makefile", "LICENSE"}
    found = {name.split("/")[0] for name in _tracked()}
    assert {name for name in found if not name.startswith(".")} <= allowed


def test_no_unfinished_places_and_no_machine_paths() -> None:
    # Written in pieces, so that this file does not find itself.
    words = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "X" * 3 + r"\b", "/wo" + "rk/", "/ro" + "ot/"]))
    wrong = []
    for name in _tracked():
        path = ROOT / name
        if not path.is_file() or path.suffix in {".png", ".bin", ".arrow"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if words.search(line):
                wrong.append(f"{name}:{number}: {line.strip()[:120]}")
    assert not wrong, "\n".join(wrong)
