"""A driver in a process of its own, which runs what a test asks for: in a `local-cluster[2,1,1024]`, or in a
standalone cluster (standalone.py).

A test calls `cluster.run("scenario", ...)`; scenarios are in scenarios.py and run in the driver's process.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.spark.addresses import WIRE

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "build" / "dev" / "spark-tests"  # the class path of HaltingPlugin
LIMIT_S = 400.0


class Cluster:
    """The driver's process."""

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str] | None = None,
        conf: dict[str, Any] | None = None,
    ) -> None:
        """`environment`: what the driver and all below it have besides ours; `conf`: of Spark, likewise."""
        assert PLUGIN.exists(), f"{PLUGIN} is not built: make test-build"
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.halt = folder / "halt"
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.log = (folder / "driver.log").open("w")
        scratch = folder / "scratch"  # what a killed JVM leaves goes with the test's folder
        scratch.mkdir()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.spark.scenarios",
                str(PLUGIN),
                str(self.halt),
                json.dumps(conf or {}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=folder,
            env={
                **os.environ,
                **WIRE,
                "PYTHONPATH": path,
                "SPARK_LOCAL_DIRS": str(scratch),
                "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={scratch}",
                **(environment or {}),
            },
        )

    def start(self, scenario: str, *arguments: Any) -> None:
        """Asks for a scenario; `answer` waits for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([scenario, *arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What the scenario has returned. Fails with its traceback where it has failed."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(LIMIT_S, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        assert line, "the driver has ended: " + (self.folder / "driver.log").read_text()[-4000:]
        answer = json.loads(line)
        assert "failure" not in answer, answer["failure"] + (self.folder / "driver.log").read_text()[-2000:]
        return answer["result"]

    def run(self, scenario: str, *arguments: Any) -> Any:
        self.start(scenario, *arguments)
        return self.answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.process.poll() is None:
            try:
                self.process.wait(300)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(300)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
