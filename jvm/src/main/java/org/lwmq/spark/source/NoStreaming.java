package org.lwmq.spark.source;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.Status;
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.failure.Failures;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * What {@code readStream} and {@code writeStream} are told in place of Spark's text, which names no way out: a source and a sink
 * of Structured Streaming are not there. Driver.
 */
interface NoStreaming extends StreamSourceProvider, StreamSinkProvider {
  String NO_SOURCE = "lwmq is no streaming source: read what is there by spark.read.format(\"lwmq\") with the option "
      + "endingOffsets=latest, again and again under one name, or all of the stream to its end";

  @Override
  default Tuple2<String, StructType> sourceSchema(
      SQLContext context, Option<StructType> schema, String provider, Map<String, String> options) {
    throw Failures.spark(Status.UNSUPPORTED, NO_SOURCE);
  }

  @Override
  default Source createSource(
      SQLContext context, String path, Option<StructType> schema, String provider, Map<String, String> options) {
    throw Failures.spark(Status.UNSUPPORTED, NO_SOURCE);
  }

  @Override
  default Sink createSink(
      SQLContext context, Map<String, String> options, Seq<String> partitioning, OutputMode mode) {
    throw Failures.spark(Status.UNSUPPORTED, GivenOptions.NO_SINK);
  }
}
