"""Arrow streams: record batches between processes, read where they were written.

Most programs need only `open_writer` and `open_reader`. `Endpoint` keeps a stream alive independently of its
writers and readers, `describe` returns the state of a stream, and `tensor` hands a column to NumPy, torch or
JAX. `partition_ids` and `split` place rows as Spark's hash partitioning does.
"""

from lwmq_spark.arrow.build import BatchBuilder
from lwmq_spark.arrow.endpoint import Endpoint, PartitionState, StreamState, describe
from lwmq_spark.arrow.lease import BatchInfo
from lwmq_spark.arrow.reader import ReaderStatistics, StreamReader, open_reader
from lwmq_spark.arrow.split import partition_ids, split
from lwmq_spark.arrow.tensors import Tensor, tensor
from lwmq_spark.arrow.writer import CommitResult, CommittedRange, StreamWriter, WriterStatistics, open_writer

__all__ = [
    "BatchBuilder",
    "BatchInfo",
    "CommitResult",
    "CommittedRange",
    "Endpoint",
    "PartitionState",
    "ReaderStatistics",
    "StreamReader",
    "StreamState",
    "StreamWriter",
    "Tensor",
    "WriterStatistics",
    "describe",
    "open_reader",
    "open_writer",
    "partition_ids",
    "split",
    "tensor",
]
