package org.lwmq.spark.batch;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;

/** Encodes rows as batches. Executor, one thread. */
interface RowSink extends AutoCloseable {
  /** Stores one row. May wait for room. */
  void write(InternalRow row);

  /** Stores all of {@code rows}. */
  default void writeAll(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      write(rows.next());
    }
  }

  /** Publishes the rows that were stored and not yet published, if there are any. */
  void flush();

  /** The next batch may be a small one. */
  default void beginSmall() {}

  /** Payload bytes that were copied once more after they had been stored. */
  long bytesCopied();

  /** Gives up the rows that were not flushed. */
  @Override
  void close();
}
