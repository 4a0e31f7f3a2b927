"""Network namespaces for tests: another one in which commands run, on the same host, as in a container."""

from lwmq_spark.cli.demo.hosts import Namespace, why_not

__all__ = ["Namespace", "why_not"]
