"""A Spark job reads a stream over RDMA, and writes one: run in the guest of the lab, which has a device.

Both ends are on one host, so LWMQ_WIRE=1 keeps them from meeting in shared memory.
"""

from __future__ import annotations

import os
import threading

import pyarrow as pa

import lwmq_spark as lwmq

os.environ["LWMQ_WIRE"] = "1"
READ, WRITTEN = "rdma://localhost:7001/read", "rdma://localhost:7001/written"
ROWS, BATCHES = 10_000, 20
schema = pa.schema([("n", pa.int64()), ("text", pa.string())])


def write() -> None:
    with lwmq.open_writer(READ, schema, role="client") as writer:
        for batch in range(BATCHES):
            numbers = range(batch * ROWS, (batch + 1) * ROWS)
            writer.write(pa.record_batch({"n": numbers, "text": [str(n) for n in numbers]}, schema))


spark = lwmq.session("smoke", "local[2]", **{"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 2})
with lwmq.Endpoint(READ), lwmq.Endpoint(WRITTEN):
    writing = threading.Thread(target=write)
    writing.start()
    frame = spark.read.format("lwmq").option("stall", "2m").load(READ)  # software emulates the processor
    count, total, length = frame.selectExpr("count(1)", "sum(n)", "sum(length(text))").first()
    writing.join()
    numbers = range(ROWS * BATCHES)
    assert (count, total) == (len(numbers), sum(numbers)), (count, total)
    assert length == sum(len(str(n)) for n in numbers)
    print("read", count, flush=True)

    found: list[int] = []

    def read() -> None:
        with lwmq.open_reader(WRITTEN, timeout=600) as reader:
            for batch in reader:
                found.extend(batch.column("id").to_pylist())

    reading = threading.Thread(target=read)
    reading.start()
    spark.range(0, 100_000, 1, 4).write.format("lwmq").mode("append").save(WRITTEN)
    reading.join()
    assert sorted(found) == list(range(100_000))
    print("written", len(found), flush=True)
spark.stop()
