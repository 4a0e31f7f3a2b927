"""The process that is not Spark: streams flights, batch by batch, and waits until they were read.

python -m lwmq_spark.cli.demo.producer ADDRESS BATCH_ROWS WINDOW_BYTES REPORT_FD
"""

from __future__ import annotations

import sys
import time

from lwmq_spark.cli.demo import data
from lwmq_spark.cli.demo.report import send_report


def main(address: str, batch_rows: int, window_bytes: int, report_fd: int) -> None:
    import lwmq_spark as lwmq

    flights = data.flights()
    batches = flights.to_batches(max_chunksize=batch_rows)
    with lwmq.open_writer(address, flights.schema, window_bytes=window_bytes) as writer:
        started = time.time()
        for batch in batches:
            writer.write(batch)
        written = time.time()
    send_report(
        report_fd,
        rows=flights.num_rows,
        bytes=sum(batch.nbytes for batch in batches),
        batches=len(batches),
        first_batch_at=started,
        last_batch_at=written,
        consumed_at=time.time(),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
