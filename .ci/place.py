"""Places what CMake built into lwmq_spark/ and makes the checkout importable from .venv, with `lwmq` as a
command there: what pip's editable mode would do, without a second build.

    python .ci/place.py build/dev/placed

Files are renamed into place: a process that has the old library mapped keeps it, instead of dying of SIGBUS.
"""

from __future__ import annotations

import filecmp
import shutil
import stat
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def place(built: Path) -> None:
    """Copies every file below `built` to the same place below the checkout, where it is new.

    An extension module that an earlier build placed under another name is removed: Python prefers the name of
    its own version (`_native.cpython-311-x86_64-linux-gnu.so`) to `_native.abi3.so`.
    """
    for old in (ROOT / "lwmq_spark").glob("_native*.so"):
        if not (built / old.relative_to(ROOT)).exists():
            old.unlink()
            print(f"removed {old.relative_to(ROOT)}")
    for source in sorted(path for path in built.rglob("*") if path.is_file()):
        target = ROOT / source.relative_to(built)
        if target.is_file() and not target.is_symlink() and filecmp.cmp(source, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        shutil.copy2(source, new)
        new.replace(target)
        print(f"placed {target.relative_to(ROOT)}")


def make_importable() -> None:
    """A .pth file and a command in the environment that runs this."""
    pth = Path(sysconfig.get_path("purelib")) / "lwmq_spark_checkout.pth"
    pth.write_text(f"{ROOT}\n", encoding="utf-8")
    _describe(Path(sysconfig.get_path("purelib")))
    command = Path(sysconfig.get_path("scripts")) / "lwmq"
    command.write_text(
        f"#!{sys.executable}\nimport sys\n\nfrom lwmq_spark.cli import main\n\nsys.exit(main())\n",
        encoding="utf-8",
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _describe(packages: Path) -> None:
    """Enough of a distribution for importlib.metadata and pip to know the version, and to remove it again."""
    version = (ROOT / "native" / "VERSION").read_text(encoding="utf-8").strip()
    for old in packages.glob("lwmq_spark-*.dist-info"):
        shutil.rmtree(old)
    folder = packages / f"lwmq_spark-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: lwmq-spark\nVersion: {version}\n", encoding="utf-8"
    )
    (folder / "INSTALLER").write_text("make\n", encoding="utf-8")
    names = [f"{folder.name}/{name}" for name in ("METADATA", "INSTALLER", "RECORD")]
    record = "".join(f"{name},,\n" for name in ["lwmq_spark_checkout.pth", *names])
    (folder / "RECORD").write_text(record, encoding="utf-8")


if __name__ == "__main__":
    place(Path(sys.argv[1]))
    make_importable()
