"""The process that waits for Spark's result: draws it when it is complete.

python -m lwmq_spark.cli.demo.consumer ADDRESS PLOT_PNG QUIET REPORT_FD
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lwmq_spark.cli.demo.pages import addresses_of, mappings
from lwmq_spark.cli.demo.report import send_report


def main(address: str, plot: Path, quiet: bool, report_fd: int) -> None:
    import pyarrow as pa

    import lwmq_spark as lwmq

    batches, size, outside, arrivals = [], 0, 0, []
    with lwmq.open_reader(address, timeout=120.0) as reader:
        for batch in reader:
            arrivals.append(time.time())
            # The windows that a network fills are this process's own: it has mapped them to write to them.
            shared = mappings("lwmq", writable=address.startswith("tcps:"))
            # Where the bytes of this batch lie: in a window of the writer that is mapped here, or elsewhere.
            for start, length in addresses_of(batch):
                size += length
                if not any(low <= start and start + length <= high for low, high in shared):
                    outside += length
            batches.append(batch)
        ended = time.time()
        table = pa.Table.from_batches(batches, reader.schema).sort_by(
            [("airline", "ascending"), ("hour", "ascending")]
        )
    # From here on nothing points into the writer's window any more: sort_by has made new memory.
    batches.clear()
    from lwmq_spark.cli.demo.draw import draw

    draw(table.to_pandas(), plot, quiet=quiet)
    send_report(
        report_fd,
        rows=table.num_rows,
        bytes=size,
        bytes_outside_window=outside,
        first_batch_at=arrivals[0] if arrivals else ended,
        ended_at=ended,
        result=table.to_pydict(),
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "1", int(sys.argv[4]))
