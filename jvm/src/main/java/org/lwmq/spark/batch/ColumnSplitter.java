package org.lwmq.spark.batch;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.function.ToIntFunction;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.KeyColumns;

/**
 * Sends each row of column batches to the encoder of its partition, without making rows of the columns: a slice of a
 * batch is copied as Arrow buffers, and each partition's rows are picked from there. Task side; one thread.
 */
public final class ColumnSplitter implements AutoCloseable {
  /** A slice is to stay in the processor's cache. It mostly begins with a byte of the bitmaps, which is quicker. */
  private static final int SLICE_ROWS = 8192;
  private static final long SLICE_BYTES = 2 << 20;
  private static final long IDS_BYTES = (long) Integer.BYTES * SLICE_ROWS;
  private static final Map<DataType, String> FORMATS = Map.ofEntries(
      Map.entry(DataTypes.BooleanType, "b"),
      Map.entry(DataTypes.ByteType, "c"),
      Map.entry(DataTypes.ShortType, "s"),
      Map.entry(DataTypes.IntegerType, "i"),
      Map.entry(DataTypes.LongType, "l"),
      Map.entry(DataTypes.FloatType, "f"),
      Map.entry(DataTypes.DoubleType, "g"),
      Map.entry(DataTypes.DateType, "tdD"),
      Map.entry(DataTypes.TimestampType, "tsu:"),
      Map.entry(DataTypes.TimestampNTZType, "tsu:"),
      Map.entry(DataTypes.BinaryType, "z"));

  private final int[] keys;
  private final KeyColumns keyColumns; // null: rows are asked one by one
  private final ToIntFunction<InternalRow> partitionOf;
  private final IntFunction<BatchEncoder> encoders;
  private final FlatColumns columns;
  private final int[] picked = new int[SLICE_ROWS];
  private final int[] ends; // by partition, in `picked`
  private int sliceRows = SLICE_ROWS;
  private long memory; // the partition of each row, and then `columns`; 0: none
  private long memoryBytes;

  /**
   * @param schema that {@link #splits}
   * @param keys the columns whose hash tells the partition, as Spark's hash partitioning has it; none: only {@code
   *     partitionOf} tells it
   * @param partitionOf the partition of a row, less than {@code partitions}; the row is valid during the call
   * @param encoders by partition, from {@link BatchEncoder#exact} for this schema
   */
  public ColumnSplitter(
      StructType schema,
      int partitions,
      int[] keys,
      ToIntFunction<InternalRow> partitionOf,
      IntFunction<BatchEncoder> encoders) {
    this.partitionOf = partitionOf;
    this.encoders = encoders;
    this.columns = new FlatColumns(BatchNode.of(schema, false));
    this.ends = new int[partitions];
    this.keys = keys;
    List<String> formats = IntStream.of(keys).mapToObj(key -> format(schema.apply(key).dataType())).toList();
    this.keyColumns = keys.length == 0 || formats.contains(null) ? null : new KeyColumns(formats);
  }

  /** Whether batches of {@code schema} can be split: their columns are all flat. */
  public static boolean splits(StructType schema) {
    return BatchNode.supports(schema) && BatchNode.of(schema).stream().allMatch(ColumnCopier::copies);
  }

  /** Encodes the rows of {@code batch}, which stays the caller's. May wait for room. */
  public void write(ColumnarBatch batch) {
    sliceRows = Math.min(SLICE_ROWS, 2 * sliceRows); // the rows before may have been huge ones
    for (int from = 0; from < batch.numRows(); from += columns.rows()) {
      copy(batch, from);
      findPartitions(batch, from, columns.rows());
      sort(columns.rows());
      int begin = 0;
      for (int partition = 0; partition < ends.length; partition++) {
        if (ends[partition] > begin) {
          encoders.apply(partition).write(columns, picked, begin, ends[partition]);
          begin = ends[partition];
        }
      }
    }
  }

  private void copy(ColumnarBatch batch, int from) {
    long bytes = columns.choose(batch, from, Math.min(sliceRows, batch.numRows() - from));
    while (bytes > SLICE_BYTES && columns.rows() > 1) {
      sliceRows = columns.rows() >= 16 ? columns.rows() / 16 * 8 : columns.rows() / 2;
      bytes = columns.choose(batch, from, sliceRows);
    }
    long readBehind = RowAppender.WORDS_AT_ONCE;
    long needed = IDS_BYTES + BatchLayout.ALIGNMENT + bytes + readBehind;
    if (needed > memoryBytes) {
      close();
      memory = Platform.allocateMemory(needed);
      memoryBytes = needed;
    }
    columns.copyTo(BatchLayout.align(memory + IDS_BYTES));
  }

  /** The Arrow format of a key whose hash the library knows; null: another type. */
  private static String format(DataType type) {
    if (type instanceof DecimalType decimal) {
      return "d:" + decimal.precision() + "," + decimal.scale();
    }
    if (type instanceof StringType text) {
      return text.supportsBinaryEquality() ? "u" : null;
    }
    return FORMATS.get(type);
  }

  private void findPartitions(ColumnarBatch batch, int from, int n) {
    if (keyColumns == null) {
      for (int i = 0; i < n; i++) {
        Platform.putInt(null, memory + 4L * i, partitionOf.applyAsInt(batch.getRow(from + i)));
      }
      return;
    }
    for (int i = 0; i < keys.length; i++) {
      int k = keys[i];
      boolean isText = columns.offsets[k] != 0;
      keyColumns.set(i, columns.validity[k], isText ? columns.offsets[k] : columns.values[k], columns.values[k]);
    }
    keyColumns.partitionIds(n, ends.length, memory);
  }

  /** Fills {@link #picked} with the numbers of the rows, those of each partition together and in their order. */
  private void sort(int n) {
    Arrays.fill(ends, 0);
    for (int i = 0; i < n; i++) {
      ends[id(i)]++;
    }
    int begin = 0;
    for (int partition = 0; partition < ends.length; partition++) {
      int count = ends[partition];
      ends[partition] = begin; // which moves to the end with each row
      begin += count;
    }
    for (int i = 0; i < n; i++) {
      picked[ends[id(i)]++] = i;
    }
  }

  private int id(int row) {
    return Platform.getInt(null, memory + 4L * row);
  }

  @Override
  public void close() {
    Platform.freeMemory(memory);
    memory = 0;
    memoryBytes = 0;
  }
}
