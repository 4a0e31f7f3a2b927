package org.lwmq.spark.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.apache.arrow.vector.types.pojo.Schema;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Deadline;
import org.lwmq.core.Endpoints;
import org.lwmq.core.Identity;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Settings;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.spark.conf.LwmqReadConf;

/**
 * Which batches of which stream a table means: fixed once, when the table is made, so that every evaluation and both
 * sides of a self-join mean the same ones. A value. Driver only.
 *
 * @param generation of the endpoint; a sequence number of another one is a data loss
 * @param ranges one per partition of the stream; an end of {@link Range#END} is open
 * @param isFinished whether every end is known and nothing more is waited for
 * @param rows in the ranges, where that is known
 * @param bytes likewise
 * @param schemaBytes the stream's schema as an IPC message
 * @param endpoint the process that serves the stream
 */
record StreamPositions(
    String uri, String generation, List<Range> ranges, boolean isFinished, OptionalLong rows, OptionalLong bytes,
    byte[] schemaBytes, Identity endpoint) {

  private static final String EARLIEST = "earliest";
  private static final List<String> WORDS = List.of(EARLIEST, "latest", "end");
  private static final String END = "end";
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * Asks the endpoint. Waits until the stream is there and has a schema, and, of one that was read to its end and is to be
   * read to its end, until the next producer has come; at most the conf's timeout. Where nobody serves the address, this
   * process does from now on. Consumes nothing.
   */
  static StreamPositions fix(LwmqReadConf conf) {
    Endpoints.ensureServed(conf.uri());
    Notices notices = new Notices("the plan of a read of " + conf.uri(), Notices.TIMEOUT);
    Deadline deadline = notices.of(Deadline.after(conf.timeoutMs()));
    StreamState state = StreamState.describe(conf.uri(), true, deadline);
    int partitions = state.partitions().size();
    Offsets starting = Offsets.of("startingOffsets", conf.startingOffsets(), EARLIEST, conf.uri(), partitions);
    Offsets ending = Offsets.of("endingOffsets", conf.endingOffsets(), END, conf.uri(), partitions);
    if (IntStream.range(0, partitions).anyMatch(i -> ending.of(i).equals(END))) {
      state = StreamState.describeUnread(conf.uri(), deadline);
    }
    boolean ended = state.state() != StreamState.State.OPEN && conf.writers() <= 1;
    List<Range> ranges = new ArrayList<>();
    long rows = 0;
    long bytes = 0;
    for (int i = 0; i < partitions; i++) {
      StreamState.Partition partition = state.partitions().get(i);
      Range range = new Range(i, start(conf, starting, i, partition), end(ending, i, partition, ended));
      check(conf, range, partition);
      ranges.add(range);
      rows += partition.rows();
      bytes += partition.bytes();
    }
    boolean isFinished = ranges.stream().noneMatch(range -> range.end() == Range.END);
    boolean isWhole = isFinished && conf.startingOffsets().equals(EARLIEST) && ending.json() == null;
    return new StreamPositions(
        conf.uri(), state.generation(), List.copyOf(ranges), isFinished,
        isWhole ? OptionalLong.of(rows) : OptionalLong.empty(), isWhole ? OptionalLong.of(bytes) : OptionalLong.empty(),
        state.schema(), state.endpoint());
  }

  Schema schema() {
    return ArrowSchemas.parse(schemaBytes);
  }

  /** INVALID: the range begins behind what the stream has, or ends before it begins. A partition is never left out. */
  private static void check(LwmqReadConf conf, Range range, StreamState.Partition state) {
    String where = "partition " + range.partition() + " of " + conf.uri();
    if (range.start() > state.nextSeq()) {
      throw new LwmqException(
          Status.INVALID, "startingOffsets asks for batch " + range.start() + " of " + where
              + ", but the next one to be written is " + state.nextSeq());
    }
    if (range.end() != Range.END && range.end() < range.start()) {
      throw new LwmqException(
          Status.INVALID, "endingOffsets ends " + where + " at batch " + range.end() + ", before its start at "
              + range.start() + ": startingOffsets=" + conf.startingOffsets());
    }
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
      case END:
        return ended ? state.nextSeq() : Range.END;
      case "latest":
        return state.nextSeq();
      default:
        return offsets.number(word);
    }
  }

  /**
   * An offsets option: what it says of each partition, a word or a number.
   *
   * @param word of partitions that {@code json} does not name
   * @param json null where one word is for all
   */
  private record Offsets(String option, String word, JsonNode json) {

    /** INVALID where {@code text} names a partition that the stream does not have. */
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
        String nearest = Settings.nearest(word, WORDS);
        String hint = nearest == null ? "" : ": did you mean " + nearest + "?";
        throw new LwmqException(
            Status.INVALID,
            "option " + option + " has '" + word + "' where " + String.join(", ", WORDS) + " or a number should be" + hint);
      }
      throw new LwmqException(
          Status.INVALID, "option " + option + " has " + word + ", but sequence numbers begin at 0");
    }

    /** As {@link #of(int)} will write it: {@code 1}, and neither {@code +1} nor {@code 01}. */
    private static boolean isNumberBelow(int end, String key) {
      try {
        int number = Integer.parseInt(key);
        return number >= 0 && number < end && key.equals(Integer.toString(number));
      } catch (NumberFormatException e) {
        return false;
      }
    }
  }

  /** Positions are what makes two reads the same; counts that were asked at another moment do not. */
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
