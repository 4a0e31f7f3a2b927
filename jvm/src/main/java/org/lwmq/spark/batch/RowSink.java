package org.lwmq.spark.batch;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;

/** Makes batches out of rows. Task side; one thread. */
interface RowSink extends AutoCloseable {
  /** Stores one row. May wait for room. */
  void write(InternalRow row);

  /** Stores all of {@code rows}. */
  default void writeAll(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      write(rows.next());
    }
  }

  /** Publishes what was stored and not yet published, if anything. */
  void flush();

  /** Payload bytes that were copied once more after they had been stored. */
  long bytesCopied();

  /** Gives up what was not flushed. */
  @Override
  void close();
}
