"""Sessions in which `format("lwmq")` works.

    spark = lwmq.session("app")                         # builds a session, or returns the running one
    builder = lwmq.configure(SparkSession.builder)      # for callers that build their own session
    lwmq.attach(spark)                                  # a session that already runs, classic or Connect

`configure` adds to what the user has set and never replaces it. None of the three functions changes how Spark
works without lwmq. If a running session cannot take a setting, one line on stderr says so.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lwmq_spark.errors import LwmqError, VersionError
from lwmq_spark.options import conf_path
from lwmq_spark.spark import versions
from lwmq_spark.spark.interrupts import cancel_on_interrupt, tell_in_one_line
from lwmq_spark.spark.jars import appended, jar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "lwmq"
EXTENSIONS = "org.lwmq.spark.source.LwmqExtensions"
MANAGER_KEY = "spark.shuffle.manager"
MANAGER = "org.lwmq.spark.shuffle.LwmqShuffleManager"
EXCHANGE_EXTENSIONS = "org.lwmq.spark.shuffle.ExchangeExtensions"
PLUGIN = "org.lwmq.spark.plugin.LwmqPlugin"
_ATTACHED = "spark.lwmq.attached"
_FILE_DEFAULTS = "spark.lwmq.defaults."


def session(
    app: str = "lwmq", master: str = "local[2]", *, exchange: bool = False, **conf: Any
) -> SparkSession:
    """Returns a session with everything in place: a new one, or the running one after `attach`.

    exchange: whether the rows of joins, aggregations, sorts and repartitions travel between Spark's stages as
    Arrow batches in memory; see `lwmq.exchange`.
    conf: Spark settings, such as `**{"spark.sql.shuffle.partitions": 4}`. A session that already runs takes
    those that can still be set.
    VersionError, before Java starts: Spark, Java or the jar do not fit. ImportError: pyspark, or a package
    that Spark Connect needs, is missing; the text names the extra to install.
    """
    _need_pyspark()
    from pyspark.sql import SparkSession

    with _naming_the_extra():
        running = SparkSession.getActiveSession()
    if running is None and not _is_remote({}):
        from pyspark import SparkContext

        builder = SparkSession.builder
        if SparkContext._active_spark_context is None:
            builder = builder.appName(app).master(master)
            builder.config(map={key: _text(value) for key, value in conf.items()})
            started = configure(builder, exchange=exchange).getOrCreate()
            cancel_on_interrupt()
            tell_in_one_line()
            return attach(started) if _jvm_lacks_jar() else started
        running = builder.getOrCreate()
    if running is None:
        with _naming_the_extra():
            running = SparkSession.builder.getOrCreate()
    attach(running)
    if exchange and _get(running, MANAGER_KEY) != MANAGER:
        _say("a session already runs and cannot take exchange=True: stop it first")
    refused = [key for key, value in conf.items() if not _set(running, key, _text(value))]
    if refused:
        _say(f"a session already runs and cannot take {', '.join(refused)}: stop it first")
    return running


def configure(builder: SparkSession.Builder, *, exchange: bool = False) -> SparkSession.Builder:
    """`builder` with our jar, our extension, our plugin and the conf file's defaults added to it. Returns it.

    exchange: see `session`.
    What the user has set in the builder, in spark-defaults.conf or in PYSPARK_SUBMIT_ARGS stays: lists are
    appended to, single values are kept. LwmqError: the builder is for a remote session, or `exchange` is
    asked for and the user has set another shuffle manager. VersionError: Spark,
    Java or the jar do not fit. ImportError: pyspark is missing.
    """
    _need_pyspark()
    options: dict[str, Any] = builder._options  # type: ignore[attr-defined]
    if _is_remote(options):
        raise LwmqError(
            "configure() cannot add a jar to a remote session: build it first, then call lwmq.attach(spark)"
        )
    theirs = {**_defaults_file(), **_submit_arguments(), **options}
    versions.check(theirs.get("spark.jars"))
    builder.config("spark.jars", appended(theirs.get("spark.jars"), str(jar())))
    if _jvm_lacks_jar():
        _say("a JVM already runs without our jar: call lwmq.attach(spark) when the session is there")
        if exchange:
            _say("exchange=True needs a JVM that has our jar when it starts: a new Python process")
    else:
        extensions = appended(theirs.get("spark.sql.extensions"), EXTENSIONS)
        if exchange:
            extensions = appended(extensions, EXCHANGE_EXTENSIONS)
            for key, value in _exchange_conf(theirs).items():
                builder.config(key, value)
        builder.config("spark.sql.extensions", extensions)
        builder.config("spark.plugins", appended(theirs.get("spark.plugins"), PLUGIN))
    for key, value in _file_defaults().items():
        if key not in theirs:
            builder.config(key, value)
    if "spark.pyspark.python" not in theirs:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers are to find what this process finds
    return builder


def attach(spark: SparkSession) -> SparkSession:
    """Makes `format("lwmq")` work, and Ctrl-C cancel jobs, in a running session, classic or Connect. Returns
    the session.

    In a classic session Spark knows the format only on the thread that calls `attach`: call it on each thread
    that uses the format. If everything is in place already, it does nothing. If something can be set only in
    a new session, one line on stderr says so. VersionError: the session's Spark does not fit. ImportError:
    pyspark is missing.
    """
    _need_pyspark()
    problem = versions.spark_problem(spark.version) or versions.jar_problem()
    if problem is not None:
        raise VersionError(problem)
    attached = spark.conf.get(_ATTACHED, None) is not None
    if not is_connect(spark):
        cancel_on_interrupt()
        tell_in_one_line()
        if _jvm_lacks_jar():
            path = str(jar()).replace("'", "\\'")
            spark.sql(f"ADD JAR '{path}'")
    elif not attached:
        spark.addArtifacts(str(jar()))
    if attached:
        return spark
    for key, value in _file_defaults().items():
        if _get(spark, key) is None:
            _set(spark, key, value)
    spark.conf.set(_ATTACHED, str(jar()))
    if EXTENSIONS not in (_get(spark, "spark.sql.extensions") or ""):
        _say(
            "attached to a running session, which cannot take an extension now: columnar plans are written "
            "row by row; lwmq.session() or lwmq.configure() start one that can"
        )
    return spark


def _exchange_conf(theirs: dict[str, Any]) -> dict[str, str]:
    """What an exchange needs beside the extension. LwmqError: the user has set another shuffle manager."""
    manager = theirs.get(MANAGER_KEY, MANAGER)
    if manager != MANAGER:
        raise LwmqError(f"exchange=True needs {MANAGER_KEY}={MANAGER}, but it is set to {manager}")
    # Spark ends a shuffle with its query, not when the JVM happens to collect it: memory stays warm.
    cleanup = "spark.sql.{}.shuffleDependency.fileCleanup.enabled"
    found = {cleanup.format(kind): "true" for kind in ("classic", "connect", "thriftserver")}
    return {MANAGER_KEY: MANAGER, **{key: value for key, value in found.items() if key not in theirs}}


def _need_pyspark() -> None:
    """ModuleNotFoundError says how to install it."""
    if versions.pyspark_is_missing():
        raise ModuleNotFoundError(versions.NO_PYSPARK, name="pyspark")


@contextlib.contextmanager
def _naming_the_extra() -> Iterator[None]:
    """Spark Connect looks for what it needs when it is first used."""
    try:
        yield
    except ImportError as exc:
        raise ImportError(f"{exc}; Spark Connect needs pip install 'lwmq-spark[connect]'") from exc


def _is_remote(options: dict[str, Any]) -> bool:
    environment = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}
    return "spark.remote" in options or not environment.isdisjoint(os.environ)


def is_connect(spark: SparkSession | DataFrame) -> bool:
    """Whether it is of Spark Connect, where no JVM is within reach."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _jvm_lacks_jar() -> bool:
    """Whether the JVM's thread that serves this one does not find us: the JVM was started without our jar."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is None:
        return False
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(EXTENSIONS)
    except Exception:  # ClassNotFoundException, as py4j has it
        return True
    return False


def _get(spark: SparkSession, key: str) -> str | None:
    try:
        value: str | None = spark.conf.get(key, None)
    except Exception:  # a key that this session does not know, said differently by classic and Connect
        return None
    return value


def _set(spark: SparkSession, key: str, value: str) -> bool:
    """False where the session cannot take it any more."""
    if _get(spark, key) == value:
        return True
    if not key.startswith(("spark.sql.", "spark.lwmq.", "spark.datasource.")):
        return False  # Spark takes such a setting silently, and ignores it
    try:
        spark.conf.set(key, value)
    except Exception:  # static settings, said differently by classic and Connect
        return False
    return True


def _file_defaults() -> dict[str, str]:
    """The [spark] table of the conf file, as settings that everything else overrides."""
    path = conf_path()
    if path is None:
        return {}
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("spark", {})
    except (OSError, ValueError) as exc:
        raise LwmqError(f"{path}: {exc}") from None
    return {_FILE_DEFAULTS + key: _text(value) for key, value in table.items()}


def _defaults_file() -> dict[str, str]:
    """What spark-defaults.conf says: a builder's setting would replace it, so it has to be known."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else None)
    path = Path(folder) / "spark-defaults.conf" if folder else None
    if path is None or not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"\s*([^#\s=:]+)\s*[=:\s]\s*(.*?)\s*$", line)
        if match:
            found[match[1]] = match[2]
    return found


def _submit_arguments() -> dict[str, str]:
    """What PYSPARK_SUBMIT_ARGS says, likewise."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    found = {}
    for option, value in itertools.pairwise(words):
        if option == "--jars":
            found["spark.jars"] = value
        elif option in ("--conf", "-c") and "=" in value:
            key, _, text = value.partition("=")
            found[key] = text
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _say(sentence: str) -> None:
    print(f"lwmq: {sentence}", file=sys.stderr)
