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

  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * Asks the endpoint. Waits until the stream is there and has a schema, at most the conf's timeout; where nobody
   * serves the address, this process does from now on. Consumes nothing.
   */
  static StreamPositions fix(LwmqReadConf conf) {
    Endpoints.ensureServed(conf.uri());
    Notices notices = new Notices("the plan of a read of " + conf.uri(), Notices.TIMEOUT);
    StreamState state = StreamState.describe(conf.uri(), true, notices.of(Deadline.after(conf.timeoutMs())));
    boolean ended = state.state() == StreamState.State.ENDED && conf.writers() <= 1;
    checkPartitions(conf.startingOffsets(), "startingOffsets", conf.uri(), state.partitions().size());
    checkPartitions(conf.endingOffsets(), "endingOffsets", conf.uri(), state.partitions().size());
    List<Range> ranges = new ArrayList<>();
    long rows = 0;
    long bytes = 0;
    for (int i = 0; i < state.partitions().size(); i++) {
      StreamState.Partition partition = state.partitions().get(i);
      long start = start(conf, i, partition);
      ranges.add(new Range(i, start, end(conf, i, partition, ended)));
      rows += partition.rows();
      bytes += partition.bytes();
    }
    boolean isFinished = ranges.stream().noneMatch(range -> range.end() == Range.END);
    boolean isWhole = isFinished && isDefault(conf);
    return new StreamPositions(
        conf.uri(), state.generation(), List.copyOf(ranges), isFinished,
        isWhole ? OptionalLong.of(rows) : OptionalLong.empty(), isWhole ? OptionalLong.of(bytes) : OptionalLong.empty(),
        state.schema(), state.endpoint());
  }

  Schema schema() {
    return ArrowSchemas.parse(schemaBytes);
  }

  private static boolean isDefault(LwmqReadConf conf) {
    return conf.startingOffsets().equals("earliest") && !conf.endingOffsets().startsWith("{");
  }

  private static long start(LwmqReadConf conf, int partition, StreamState.Partition state) {
    String word = offset(conf.startingOffsets(), "startingOffsets", partition, "earliest");
    switch (word) {
      case "earliest":
        return state.unackedSeq();
      case "latest":
        return state.nextSeq();
      default:
        long start = number(word, "startingOffsets");
        if (start < state.firstSeq() && conf.failOnDataLoss()) {
          throw new LwmqException(
              Status.DATA_LOSS, "startingOffsets asks for batch " + start + " of partition " + partition + " of "
                  + conf.uri() + ", but the first that is kept is " + state.firstSeq()
                  + "; retain=\"all\" at the producer keeps them, failOnDataLoss=false goes on without");
        }
        return Math.max(start, state.firstSeq());
    }
  }

  private static long end(LwmqReadConf conf, int partition, StreamState.Partition state, boolean ended) {
    String word = offset(conf.endingOffsets(), "endingOffsets", partition, "end");
    switch (word) {
      case "end":
        return ended ? state.nextSeq() : Range.END;
      case "latest":
        return state.nextSeq();
      default:
        return number(word, "endingOffsets");
    }
  }

  /** INVALID where an offsets option names a partition that the stream does not have. */
  private static void checkPartitions(String option, String name, String uri, int partitions) {
    if (!option.startsWith("{")) {
      return;
    }
    for (String key : (Iterable<String>) json(option, name)::fieldNames) {
      if (IntStream.range(0, partitions).noneMatch(i -> key.equals(Integer.toString(i)))) {
        throw new LwmqException(
            Status.INVALID, "option " + name + " names partition '" + key + "', but " + uri + " has " + partitions
                + (partitions == 1 ? ", which is 0" : ", which are 0 to " + (partitions - 1)));
      }
    }
  }

  /** The part of an offsets option that concerns one partition: a word, or a number. */
  private static String offset(String option, String name, int partition, String byDefault) {
    if (!option.startsWith("{")) {
      return option;
    }
    JsonNode node = json(option, name).get(Integer.toString(partition));
    return node == null ? byDefault : node.asText();
  }

  private static JsonNode json(String option, String name) {
    try {
      return JSON.readTree(option);
    } catch (JsonProcessingException e) {
      throw new LwmqException(
          Status.INVALID, "option " + name + " is no JSON such as {\"0\": 17}: " + e.getOriginalMessage());
    }
  }

  private static long number(String word, String name) {
    try {
      long number = Long.parseLong(word);
      if (number >= 0) {
        return number;
      }
    } catch (NumberFormatException e) {
      throw new LwmqException(
          Status.INVALID, "option " + name + " has '" + word + "' where earliest, latest, end or a number should be");
    }
    throw new LwmqException(Status.INVALID, "option " + name + " has " + word + ", but sequence numbers begin at 0");
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
