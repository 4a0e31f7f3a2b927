"""What leaves the built library, and what a C compiler says of its headers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

FUNCTIONS = ("lwmq/lwmq.h", "lwmq_private/arrow.h")  # those that declare what the library exports
ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "native" / "include"
LIBRARY = ROOT / "lwmq_spark" / "_lib" / "liblwmq.so"
JNI = ROOT / "lwmq_spark" / "_lib" / "liblwmq_jni.so"


def _exported(library: Path) -> set[str]:
    assert library.exists(), f"{library} is not built: make dev"
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {line.split()[0].split("@")[0] for line in listing.splitlines() if line}


def _declared() -> set[str]:
    """The functions that the headers declare."""
    text = "".join((HEADERS / header).read_text(encoding="utf-8") for header in FUNCTIONS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return set(re.findall(r"^\w[\w \*]*?\b(lwmq_\w+)\(", text, re.MULTILINE))


def test_the_library_exports_exactly_what_the_headers_declare() -> None:
    declared, exported = _declared(), _exported(LIBRARY)
    assert len(declared) > 50
    assert exported - declared == set(), "exported and not declared"
    assert declared - exported == set(), "declared and not exported"


def test_the_jni_library_exports_only_what_the_jvm_looks_up() -> None:
    names = _exported(JNI)
    assert names
    assert {name for name in names if not name.startswith(("Java_", "JNI_"))} == set()


def test_the_library_has_none_of_the_switches_of_the_stress_build() -> None:
    """Yield points and planted bugs, of which native/src/base/yield_point.h tells."""
    code = LIBRARY.read_bytes()
    assert b"LWMQ_YIELD" not in code and b"LWMQ_PLANTED" not in code


@pytest.mark.parametrize("header", [*FUNCTIONS, "lwmq/lwmq_tli.h"])
@pytest.mark.parametrize(
    "compiler", [["gcc", "-std=c11"], ["g++", "-x", "c++", "-std=c++20"]], ids=["c11", "c++20"]
)
def test_a_header_compiles_by_itself(header: str, compiler: list[str], tmp_path: Path) -> None:
    source = tmp_path / "use.c"
    source.write_text(
        f'#include "{header}"\n#include "{header}"\nint main(void) {{ return (int)LWMQ_OK; }}\n'
    )
    subprocess.run(
        [
            *compiler,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
            f"-I{HEADERS}",
            str(source),
        ],
        check=True,
        timeout=300,
    )


@pytest.mark.row("L08")
def test_the_built_library_lists_its_registered_providers() -> None:
    """The trap of a static archive is an empty list, silently."""
    import lwmq_spark._ffi as ffi

    names = []
    while (name := ffi.lib.lwmq_provider_name(len(names))) != ffi.ffi.NULL:
        names.append(ffi.ffi.string(name).decode())
    built = {
        path.parent.name: path.read_text(encoding="utf-8").count("\nLWMQ_TLI_REGISTER(")
        for path in (ROOT / "native/src/providers").glob("*/provider.c*")
    }
    assert built.keys() <= set(names), "a folder has a provider of its name, and may have further ones"
    assert len(set(names)) == len(names) == sum(built.values())


def test_the_library_needs_only_the_c_library_with_its_unwinder_and_is_never_unloaded() -> None:
    dynamic = subprocess.run(
        ["readelf", "--dynamic", "--wide", LIBRARY], check=True, capture_output=True, text=True
    ).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic))
    loaders = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert needed <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", *loaders}
    assert re.search(r"FLAGS_1.*NODELETE", dynamic)
