package org.lwmq.spark.read;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.StructType;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.conf.TaskAddress;
import org.lwmq.spark.report.Notices;

/**
 * The batches that a table consists of. They are fixed once, when the table is made, so that every evaluation and both
 * sides of a self-join read the same batches. Driver; a value.
 *
 * @param uri the address that tasks are told, see {@link TaskAddress}
 * @param generation of the endpoint; sequence numbers mean nothing in another generation
 * @param ranges one per partition of the stream; an end of {@link Range#END} is open
 * @param isFinished whether every end is known, so that a read waits for no more batches
 * @param rows the number of rows in the ranges, if it is known
 * @param bytes the number of bytes in the ranges, if it is known
 * @param schemaBytes the schema of the stream as an IPC message
 * @param where tasks find the stream
 */
public record StreamPositions(
    String uri, String generation, List<Range> ranges, boolean isFinished, OptionalLong rows, OptionalLong bytes,
    byte[] schemaBytes, TaskAddress where) {

  private static final String EARLIEST = "earliest";
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * Asks the endpoint. Waits until the stream is there and has a schema, at most for the timeout of {@code conf}. If
   * nobody serves the address, this process does from now on. Consumes nothing.
   */
  public static StreamPositions fix(LwmqReadConf conf) {
    String address = TaskAddress.serve(conf.uri());
    Notices notices = new Notices("the plan of a read of " + address, Notices.TIMEOUT);
    StreamState state = StreamState.describe(address, true, notices.of(Deadline.after(conf.timeoutMs())));
    boolean ended = state.state() == StreamState.State.ENDED && conf.writers() <= 1;
    int partitions = state.partitions().size();
    Offsets starting = Offsets.of("startingOffsets", conf.startingOffsets(), EARLIEST, conf.uri(), partitions);
    Offsets ending = Offsets.of("endingOffsets", conf.endingOffsets(), "end", conf.uri(), partitions);
    List<Range> ranges = new ArrayList<>();
    long rows = 0;
    long bytes = 0;
    for (int i = 0; i < partitions; i++) {
      StreamState.Partition partition = state.partitions().get(i);
      long start = start(conf, starting, i, partition);
      ranges.add(new Range(i, start, end(ending, i, partition, ended)));
      rows += partition.rows();
      bytes += partition.bytes();
    }
    boolean isFinished = ranges.stream().noneMatch(range -> range.end() == Range.END);
    boolean isWhole = isFinished && conf.startingOffsets().equals(EARLIEST) && ending.json() == null;
    return new StreamPositions(
        address, state.generation(), List.copyOf(ranges), isFinished,
        isWhole ? OptionalLong.of(rows) : OptionalLong.empty(), isWhole ? OptionalLong.of(bytes) : OptionalLong.empty(),
        state.schema(), TaskAddress.of(conf.uri(), conf.announce(), conf.settings(), state));
  }

  /** The stream's schema. */
  public Schema schema() {
    return ArrowSchemas.parse(schemaBytes);
  }

  /** The column whose value decides on the partition of a row; null: none. */
  String partitionKey() {
    return StreamSchema.partitionKey(schema());
  }

  /** SCHEMA, naming the field, unless a table with the fields {@code table} can be read from this stream. */
  public void check(StructType table, String name) {
    StreamColumns.check(table, schema(), name);
  }

  private static long start(LwmqReadConf conf, Offsets offsets, int partition, StreamState.Partition state) {
    String word = offsets.of(partition);
    switch (word) {
      case EARLIEST:
        return state.unackedSeq();
      case "latest":
        return state.nextSeq();
      default:
        long start = offsets.number(word);
        if (start < state.firstSeq() && conf.failOnDataLoss()) {
          throw new LwmqException(
              Status.DATA_LOSS, "startingOffsets asks for batch " + start + " of partition " + partition + " of "
                  + conf.uri() + ", but the first that is kept is " + state.firstSeq()
                  + "; retain=\"all\" at the producer keeps them, failOnDataLoss=false goes on without");
        }
        return Math.max(start, state.firstSeq());
    }
  }

  private static long end(Offsets offsets, int partition, StreamState.Partition state, boolean ended) {
    String word = offsets.of(partition);
    switch (word) {
      case "end":
        return ended ? state.nextSeq() : Range.END;
      case "latest":
        return state.nextSeq();
      default:
        return offsets.number(word);
    }
  }

  /**
   * An option with offsets: a word or a number for each partition.
   *
   * @param word for the partitions that {@code json} does not name
   * @param json null: {@code word} is for all partitions
   */
  private record Offsets(String option, String word, JsonNode json) {

    /** INVALID: {@code text} names a partition that the stream does not have, or is no JSON. */
    static Offsets of(String option, String text, String byDefault, String uri, int partitions) {
      if (!text.startsWith("{")) {
        return new Offsets(option, text, null);
      }
      JsonNode json;
      try {
        json = JSON.readTree(text);
      } catch (JsonProcessingException e) {
        throw new LwmqException(
            Status.INVALID, "option " + option + " is no JSON such as {\"0\": 17}: " + e.getOriginalMessage());
      }
      for (String key : (Iterable<String>) json::fieldNames) {
        if (!isNumberBelow(partitions, key)) {
          throw new LwmqException(
              Status.INVALID, "option " + option + " names partition '" + key + "', but " + uri + " has " + partitions
                  + (partitions == 1 ? ", which is 0" : ", which are 0 to " + (partitions - 1)));
        }
      }
      return new Offsets(option, byDefault, json);
    }

    String of(int partition) {
      JsonNode node = json == null ? null : json.get(Integer.toString(partition));
      return node == null ? word : node.asText();
    }

    long number(String word) {
      try {
        long number = Long.parseLong(word);
        if (number >= 0) {
          return number;
        }
      } catch (NumberFormatException e) {
        throw new LwmqException(
            Status.INVALID, "option " + option + " has '" + word + "' where earliest, latest, end or a number should be");
      }
      throw new LwmqException(
          Status.INVALID, "option " + option + " has " + word + ", but sequence numbers begin at 0");
    }

    /** Accepts a number as {@link #of(int)} writes it: {@code 1}, but neither {@code +1} nor {@code 01}. */
    private static boolean isNumberBelow(int end, String key) {
      try {
        int number = Integer.parseInt(key);
        return number >= 0 && number < end && key.equals(Integer.toString(number));
      } catch (NumberFormatException e) {
        return false;
      }
    }
  }

  /** Compares positions. The counts may differ, because they were asked at different times. */
  @Override
  public boolean equals(Object other) {
    return other instanceof StreamPositions that
        && uri.equals(that.uri)
        && generation.equals(that.generation)
        && ranges.equals(that.ranges);
  }

  @Override
  public int hashCode() {
    return 31 * generation.hashCode() + ranges.hashCode();
  }
}
