"""A standalone cluster: a master and workers in processes of their own, each with the name and the network
namespace that a test gives it. What Spark does only between hosts, it does between their names.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.namespaces import Namespace
from tests.spark.addresses import free_port

LIMIT_S = 300.0


@dataclass
class Worker:
    """One that offers its executor two slots."""

    host: str  # an address of this machine: 127.0.0.1, 127.0.0.2 are two hosts to Spark
    namespace: Namespace | None = None


@contextlib.contextmanager
def standalone(folder: Path, host: str, workers: list[Worker]) -> Iterator[str]:
    """The URL of a master on `host`, an address that each worker reaches."""
    import pyspark

    home = Path(pyspark.__file__).parent
    spark_class = [str(home / "bin" / "spark-class")]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(folder)}
    environment["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={folder}"
    port = free_port(host)
    url = f"spark://{host}:{port}"
    common = ["--webui-port", "0", "--host"]
    with contextlib.ExitStack() as stack:

        def start(name: str, command: list[str]) -> Path:
            log = folder / f"{name}.log"
            file = stack.enter_context(log.open("w"))
            process = subprocess.Popen(command, stdout=file, stderr=file, cwd=folder, env=environment)
            stack.callback(_end, process)
            return log

        master = start(
            "master",
            [*spark_class, "org.apache.spark.deploy.master.Master", *common, host, "--port", str(port)],
        )
        _wait_for(master, "New state: ALIVE")
        logs = []
        for number, worker in enumerate(workers):
            command = [*spark_class, "org.apache.spark.deploy.worker.Worker", *common, worker.host]
            command += ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / f"work{number}"), url]
            if worker.namespace is not None:
                command = worker.namespace.command(*command)
            logs.append(start(f"worker{number}", command))
        for log in logs:
            _wait_for(log, "Successfully registered with master")
        yield url


def _wait_for(log: Path, line: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while line not in log.read_text():
        assert time.monotonic() < deadline, f"{log.name} never said '{line}': {log.read_text()[-3000:]}"
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """A worker ends its executors first."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(300)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(300)
