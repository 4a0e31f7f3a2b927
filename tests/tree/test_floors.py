"""Each folder knows the floors below it and nothing beside or above: native by its includes, Java and Python
by their imports. The tables are those of ARCHITECTURE.md; an exception is written here or does not exist.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native" / "src"
JAVA = ROOT / "jvm" / "src" / "main" / "java" / "org" / "lwmq"
PYTHON = ROOT / "lwmq_spark"

PROVIDERS = sorted(path.name for path in (NATIVE / "providers").iterdir() if path.is_dir())
SCHEMES = ["loop", "ipc", "tcp", "vsock", "rdma", "pgm"]

# folder -> folders it may include from, beside itself
_F2 = {"base", "os"}
_ALL = {
    "base",
    "os",
    "stats",
    "queue",
    "wire",
    "message",
    "tli",
    "modules",
    "filters",
    "address",
    "codec",
    "store",
    "scheduler",
    "reliability",
    "service",
}
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "os": {"base"},
    "stats": _F2,
    "queue": _F2,
    "wire": _F2,
    "message": _F2 | {"stats", "queue", "wire"},
    "tli": _F2 | {"stats", "queue"},
    "codec": {"base", "wire", "message"},
    "store": {"base", "os", "wire"},
    "modules": {"base", "os", "tli"},
    "lane": {"base", "os", "tli"},
    "filters": {"base", "os", "stats", "tli", "modules", "store"},
    "address": {"base", "tli", "modules"},
    "providers": {"base", "os", "queue", "stats", "tli", "lane"},
    "scheduler": {"base", "os", "queue", "message", "codec"},
    "reliability": {"base", "os", "wire", "message"},
    "service": {"base", "os", "tli", "modules"},
    "conversation": _ALL,
    "channel": _ALL | {"conversation"},
    "patterns": _ALL | {"conversation", "channel"},
    "stream": _ALL,
    "abi": _ALL | {"conversation", "channel", "patterns", "stream"},
    "jni": set(),
    "python": set(),
}
# Which folders may include the public headers.
_FACES = {"jni", "python"}
PUBLIC = {
    "lwmq/lwmq.h": set(MAY_INCLUDE),
    "lwmq/lwmq_tli.h": set(MAY_INCLUDE) - _FACES - {"message", "codec"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def _native_files() -> list[Path]:
    return sorted(path for path in NATIVE.rglob("*") if path.suffix in {".cc", ".h", ".c"})


def _folder(relative: Path) -> str:
    return relative.parts[0]


def test_every_native_file_includes_only_from_floors_below_and_its_own_folder() -> None:
    wrong = []
    for path in _native_files():
        relative = path.relative_to(NATIVE)
        folder = _folder(relative)
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if name in PUBLIC:
                if folder not in PUBLIC[name]:
                    wrong.append(f"{relative} includes {name}")
                continue
            if "/" not in name or not (NATIVE / name).exists():
                if (path.parent / name).exists():
                    continue
                assert not name.startswith("lwmq/"), f"{relative} includes {name}, which does not exist"
                continue
            target = _folder(Path(name))
            if target == "providers" and folder == "providers":
                if Path(name).parts[1] != relative.parts[1]:
                    wrong.append(f"{relative} includes {name}: another provider's")
                continue
            if target != folder and target not in MAY_INCLUDE[folder]:
                wrong.append(f"{relative} includes {name}")
    assert _native_files()
    assert not wrong, "\n".join(wrong)


def test_what_has_a_yield_point_is_compiled_for_the_stress_tests() -> None:
    """Else one library would have the same inline function with and without."""
    stress = (ROOT / "native" / "cmake" / "stress.cmake").read_text(encoding="utf-8")
    listed = re.findall(r"set\(LWMQ_YIELDING_FLOORS ([^)]*)\)", stress)[0].split()
    includes = {
        path: {NATIVE / name for name in INCLUDE.findall(path.read_text(encoding="utf-8"))}
        for path in _native_files()
    }
    reached = {NATIVE / "base" / "yield_point.h"}
    while more := {path for path, names in includes.items() if names & reached} - reached:
        reached |= more
    assert {_folder(path.relative_to(NATIVE)) for path in reached} == set(listed)


@pytest.mark.row("L10")
def test_no_file_outside_a_providers_folder_names_it() -> None:
    """Neither as `scheme://`, nor as a word in code or comment, in what lies below the public interface."""
    word = re.compile(r"\b(" + "|".join(set(SCHEMES + PROVIDERS) - {"loop"}) + r")\b|loop://")
    wrong = []
    for path in _native_files():
        relative = path.relative_to(NATIVE)
        if relative.parts[0] == "providers":
            others = set(SCHEMES) - {relative.parts[1], "loop"}
            pattern = re.compile(r"\b(" + "|".join(sorted(others)) + r")://")
        else:
            pattern = word
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.search(line):
                wrong.append(f"{relative}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_only_the_abi_says_extern_c_for_the_public_interface() -> None:
    defined = re.compile(r"^(?:LWMQ_API |extern \"C\" )?\w[\w \*]*\blwmq_(?!tli_)\w+\(", re.MULTILINE)
    wrong = [
        str(path.relative_to(NATIVE))
        for path in _native_files()
        if path.suffix == ".cc"
        and path.relative_to(NATIVE).parts[0] not in {"abi", "jni", "python"}
        and 'extern "C"' in path.read_text(encoding="utf-8")
        and defined.search(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, wrong


def _java_imports(path: Path) -> list[str]:
    return re.findall(r"^import (?:static )?([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE)


# package below org.lwmq -> packages below org.lwmq that it may import from, beside itself
JAVA_MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "arrow": {"core"},
    "spark.conf": {"core"},
    "spark.failure": {"core"},
    "spark.vector": {"core", "arrow", "spark.failure"},
    "spark.plugin": set(),
    "spark.batch": {"core", "spark.vector"},
    "spark.source": {"core", "arrow", "spark.batch", "spark.conf", "spark.failure", "spark.vector"},
    "spark.shuffle": {
        "core",
        "arrow",
        "spark.batch",
        "spark.conf",
        "spark.failure",
        "spark.plugin",
        "spark.vector",
    },
}


def test_every_java_file_imports_only_from_packages_below() -> None:
    wrong = []
    for path in sorted(JAVA.rglob("*.java")):
        package = ".".join(path.relative_to(JAVA).parent.parts)
        assert package in JAVA_MAY_IMPORT, f"org.lwmq.{package} is no package of the floors"
        for name in _java_imports(path):
            if name.startswith("org.apache.spark") and not package.startswith("spark"):
                wrong.append(f"{path.name} imports {name}")
            if not name.startswith("org.lwmq."):
                continue
            target = name.removeprefix("org.lwmq.")
            known = [known for known in JAVA_MAY_IMPORT if target.startswith(known + ".")]
            assert known, f"{path.name} imports {name}"
            if known[0] != package and known[0] not in JAVA_MAY_IMPORT[package]:
                wrong.append(f"{path.name} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_only_the_jni_class_declares_native_methods() -> None:
    declared = re.compile(r"^\s*(?:[\w@]+\s+)*native\s+[\w\[\]<>]+\s+\w+\(", re.MULTILINE)
    found = {path.name for path in JAVA.rglob("*.java") if declared.search(path.read_text(encoding="utf-8"))}
    assert found == {"Jni.java"}


# Floors of the Python package, lowest first; what is imported lies strictly below, or in one's own folder.
PYTHON_FLOORS = [
    {"_native"},
    {"errors", "_interpreter", "_notices"},
    {"_ffi"},
    {"options", "modules", "observer"},
    {"message"},
    {"channel"},
    {"aio", "store", "arrow"},
    {"meter"},
    {"spark"},
    {"cli"},
]


def _python_floor(name: str) -> int:
    for number, names in enumerate(PYTHON_FLOORS):
        if name in names:
            return number
    raise AssertionError(f"lwmq_spark.{name} is on no floor: add it to PYTHON_FLOORS")


def _python_imports(path: Path) -> list[str]:
    """Top-level names of lwmq_spark that a file imports, wherever in the file."""
    relative = path.relative_to(PYTHON)
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [a.name.split(".")[1] for a in node.names if a.name.startswith("lwmq_spark.")]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            if node.level:
                above = list(relative.parent.parts)
                above = above[: len(above) - (node.level - 1)]
                module = above + module
            elif module[:1] == ["lwmq_spark"]:
                module = module[1:]
            else:
                continue
            found += [module[0]] if module else [a.name for a in node.names]
    return found


def test_every_python_module_imports_only_from_floors_below() -> None:
    wrong = []
    for path in sorted(PYTHON.rglob("*.py")):
        relative = path.relative_to(PYTHON)
        own = relative.parts[0].removesuffix(".py")
        if own in {"__init__", "__main__", "_build_native"}:
            continue
        for name in _python_imports(path):
            if name == own or not (
                (PYTHON / name).is_dir() or (PYTHON / f"{name}.py").exists() or name == "_native"
            ):
                continue
            if _python_floor(name) >= _python_floor(own) and not (own == "_ffi" and name == "errors"):
                wrong.append(f"{relative} imports lwmq_spark.{name}")
    assert not wrong, "\n".join(wrong)


def test_only_ffi_imports_the_compiled_module() -> None:
    found = {str(p.relative_to(PYTHON)) for p in PYTHON.rglob("*.py") if "_native" in _python_imports(p)}
    assert found == {"_ffi.py"}
