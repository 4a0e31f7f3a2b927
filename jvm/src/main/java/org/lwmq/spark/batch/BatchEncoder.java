package org.lwmq.spark.batch;

import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.runtime.AbstractFunction1;

/**
 * Encodes the rows and the column batches of one task as Arrow batches, in blocks of a {@link BatchSink}. One thread.
 *
 * <p>A schema whose types all have a {@link BatchNode} is encoded in place, without a further copy. Any other schema
 * goes through Spark's own ArrowWriter, row by row.
 */
public final class BatchEncoder implements AutoCloseable {
  private static final AbstractFunction1<DataType, Object> IS_INTERVAL =
      new AbstractFunction1<>() {
        @Override
        public Object apply(DataType type) {
          return type instanceof CalendarIntervalType;
        }
      };

  private final RowSink rows;
  private final Supplier<ColumnBatches> columnsAtFirstUse; // null: column batches are encoded row by row
  private final RowBatches exact; // null: not made by `exact`
  private ColumnBatches columns; // null: none has come

  /**
   * @param schema of the rows
   * @param nullRules of the stream that the batches are for
   * @param batchBytes the largest batch by intent
   * @param repairs whether a string that is not UTF-8 is repaired; otherwise it is an error
   */
  public BatchEncoder(BatchSink sink, StructType schema, NullRules nullRules, long batchBytes, boolean repairs) {
    if (BatchNode.supports(schema)) {
      List<BatchNode> nodes = BatchNode.of(schema);
      RowBatches batches = new RowBatches(sink, nodes, nullRules, batchBytes);
      this.rows = repairs ? new Utf8Rows(batches, schema, true) : batches;
      this.columnsAtFirstUse = () -> new ColumnBatches(sink, schema, nodes, nullRules, batchBytes, rows);
    } else {
      this.rows = new Utf8Rows(new ArrowRowBatches(sink, schema, nullRules, batchBytes), schema, repairs);
      this.columnsAtFirstUse = null;
    }
    this.exact = null;
  }

  private BatchEncoder(RowBatches exact, Supplier<ColumnBatches> columnsAtFirstUse) {
    this.rows = exact;
    this.columnsAtFirstUse = columnsAtFirstUse;
    this.exact = exact;
  }

  /**
   * Makes encoders of one schema that keep every value bit by bit, strings that are not UTF-8 too: for batches that only
   * Spark reads. One thread.
   *
   * @param schema with types that {@link #keeps} accepts
   * @param firstBytes the first batch by intent
   * @param batchBytes the largest batch by intent
   */
  public static Function<BatchSink, BatchEncoder> exact(StructType schema, long firstBytes, long batchBytes) {
    NullRules anyNull = NullRules.of(StreamSchema.arrow(schema.asNullable()));
    List<BatchNode> nodes = BatchNode.of(schema, false);
    Supplier<RowAppender> appenders = AppenderCompiler.of(nodes);
    return sink -> {
      RowBatches rows = new RowBatches(sink, nodes, anyNull, firstBytes, batchBytes, appenders);
      return new BatchEncoder(rows, () -> new ColumnBatches(sink, schema, nodes, anyNull, batchBytes, rows));
    };
  }

  /** Whether {@link #exact} keeps the values of {@code type}. */
  public static boolean keeps(DataType type) {
    // Arrow counts the time of a calendar interval in nanoseconds, and Spark in microseconds: long ones do not fit.
    return BatchNode.supports(type) && !type.existsRecursively(IS_INTERVAL);
  }

  /** How many Arrow nodes a row of {@code schema} has. */
  public static int nodesOf(StructType schema) {
    return BatchNode.of(schema).size();
  }

  /** Encodes one row. May wait for room. */
  public void write(InternalRow row) {
    rows.write(row);
  }

  /** Encodes all of {@code input}. May wait for room. */
  public void writeAll(Iterator<InternalRow> input) {
    rows.writeAll(input);
  }

  /** Encodes a column batch, which stays the caller's. May wait for room. */
  public void write(ColumnarBatch batch) {
    if (columnsAtFirstUse == null) {
      rows.writeAll(batch.rowIterator());
      return;
    }
    if (columns == null) {
      columns = columnsAtFirstUse.get();
    }
    columns.write(batch);
  }

  /**
   * Encodes the rows {@code picked[from]} to {@code picked[to - 1]} of {@code source}. Only where {@link #exact} has made
   * the encoder. May wait for room.
   */
  void write(FlatColumns source, int[] picked, int from, int to) {
    exact.write(source, picked, from, to);
  }

  /** Publishes the rows that were encoded and not yet published, if there are any. */
  public void flush() {
    rows.flush();
  }

  /** Payload bytes that were copied once more after they had been encoded. */
  public long bytesCopied() {
    return rows.bytesCopied() + (columns == null ? 0 : columns.bytesCopied());
  }

  /** Gives up what was not flushed. Twice is allowed. */
  @Override
  public void close() {
    rows.close();
  }
}
