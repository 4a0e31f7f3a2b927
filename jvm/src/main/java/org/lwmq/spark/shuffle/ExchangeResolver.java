package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.SparkConf;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.ShuffleBlockId;
import scala.Option;

/**
 * Gives Spark's block transfer what other executors fetch. The files of Spark's own shuffles are found as always.
 *
 * <p>A subclass, because Spark casts the resolver of every shuffle manager to this class when an executor is
 * decommissioned. Outputs of ours have no files that it would move, so they are computed again.
 */
final class ExchangeResolver extends IndexShuffleBlockResolver {
  private final ExchangeStore store;

  ExchangeResolver(SparkConf conf, ExchangeStore store) {
    super(conf);
    this.store = store;
  }

  @Override
  public ManagedBuffer getBlockData(BlockId id, Option<String[]> directories) {
    if (id instanceof ShuffleBlockId block && store.has(block.shuffleId())) {
      MapOutput output = store.find(block.shuffleId(), block.mapId());
      if (output == null) {
        throw new IllegalStateException(id + " is no longer in this executor");
      }
      try {
        return new SentBlock(output, block.reduceId());
      } catch (IOException e) {
        output.release();
        throw new UncheckedIOException(id + " cannot be read from its file", e);
      }
    }
    return super.getBlockData(id, directories);
  }
}
