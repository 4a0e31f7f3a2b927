"""Producers that lie to Spark: metadata that is corrupt, offsets that change while a query reads. The query
fails with our error, or is right; the JVM lives, and reads the next stream.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.producers import Producer, kept, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A producer whose blocks have corrupt metadata, or whose offsets it rewrites for as long as it lives.
LIAR = """
import random, sys, threading
import numpy as np, pyarrow as pa
import lwmq_spark as lwmq
from lwmq_spark._ffi import check, ffi, lib
from lwmq_spark.arrow.layout import Encoder, _find_places

address, how, seed = sys.argv[1:4]
random.seed(int(seed))
batch = pa.record_batch({"k": np.arange(5000), "s": [f"text {n}" for n in range(5000)]})
encoded = Encoder(batch.schema).encode(batch)
writer = lwmq.open_writer(address, batch.schema, timeout=60.0, role="client")
for _ in range(4):
    block = ffi.new("lwmq_block *")
    check(lib.lwmq_writer_allocate(writer._handle.pointer, encoded.bytes, 1000, block))
    encoded.place(int(ffi.cast("uintptr_t", block.data)))
    memory = np.frombuffer(ffi.buffer(block.data, encoded.bytes), np.uint8)
    head = 8 + int(memory[4:8].view("<i4")[0])
    if how == "metadata":
        for _ in range(3):
            memory[8 + random.randrange(head - 8)] = random.randrange(256)
    check(lib.lwmq_writer_publish(writer._handle.pointer, block, 0, encoded.bytes, 5000, 0))
print("published", flush=True)
if how == "offsets":
    # Those of the texts, over and over: far away, negative, right again.
    places = _find_places(bytearray(memory[8:head].tobytes()))
    at = head + int(memory[8 + places.buffers + 16 * 3 :][:8].view("<i8")[0])
    offsets = memory[at : at + 20_000].view("<i4")
    right = offsets.copy()
    def rewrite():
        while True:
            for wrong in (0x7FFFFFFF, -1, 1 << 20):
                offsets[2000:4000] = wrong
                offsets[2000:4000] = right[2000:4000]
    threading.Thread(target=rewrite, daemon=True).start()
sys.stdin.readline()
writer.abort()
"""


def still_reads(spark: SparkSession, address: str) -> None:
    """The session serves the next query as if nothing had been."""
    producer = Producer(address, pa.table({"k": range(1000)}))
    assert read(spark, address).count() == 1000
    producer.finish()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", ["metadata", "offsets"])
def test_a_producer_that_lies_is_an_error_or_right_and_the_jvm_lives(
    spark: SparkSession, ipc: str, how: str, seed: int
) -> None:
    with kept(ipc):
        liar = subprocess.Popen(
            [sys.executable, "-c", LIAR, ipc, how, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert liar.stdout is not None
            assert liar.stdout.readline() == b"published\n"
            frame = read(spark, ipc, endingOffsets="latest").selectExpr("sum(k)", "sum(length(upper(s)))")
            try:
                row = frame.first()
                assert how == "offsets" or row is not None
            except Exception as failure:
                assert isinstance(lwmq.error_of(failure), lwmq.CorruptError | lwmq.DataLossError), failure
        finally:
            liar.communicate(b"\n", timeout=60)
    still_reads(spark, ipc + "-next")
