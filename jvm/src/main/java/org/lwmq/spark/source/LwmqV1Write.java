package org.lwmq.spark.source;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.lwmq.spark.conf.LwmqWriteConf;

/**
 * The columnar write of a session without our extension, on request ({@code columnarWrite=true}): Spark hands over the
 * DataFrame, and we run its plan, in columns where its last step has them, else in rows. Driver; the tasks' part is
 * {@link #task}.
 *
 * <p>The two-phase commit is the same as in {@link LwmqBatchWrite}, without Spark's coordinator, which only saves
 * work: the endpoint decides either way.
 */
final class LwmqV1Write extends LwmqWrite implements V1Write {
  private final String queryId;

  LwmqV1Write(StructType schema, LwmqWriteConf conf, String queryId) {
    super(schema, conf, queryId, true);
    this.queryId = queryId;
  }

  @Override
  public InsertableRelation toInsertableRelation() {
    return (data, overwrite) -> insert(data);
  }

  private void insert(Dataset<Row> data) {
    SparkPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) data).queryExecution().executedPlan();
    SparkPlan columnar = columnar(plan);
    WriteJob job = new WriteJob(schema, conf, queryId);
    LwmqDataWriterFactory factory = job.open();
    try {
      List<byte[]> messages = columnar == null
          ? run(plan.execute(), factory, LwmqDataWriter::writeAll)
          : run(columnar.executeColumnar(), factory, LwmqV1Write::writeBatches);
      job.commit(messages.stream().map(TaskResult::of).toList());
    } catch (Throwable e) {
      job.abort("the Spark job that wrote it has failed");
      throw e;
    }
  }

  private static void writeBatches(LwmqDataWriter writer, Iterator<ColumnarBatch> batches) {
    while (batches.hasNext()) {
      writer.writeColumns(batches.next());
    }
  }

  /** The part of {@code plan} that ends in columns, or null. */
  private static SparkPlan columnar(SparkPlan plan) {
    if (plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter || plan instanceof ColumnarToRowExec) {
      return columnar(plan.children().head());
    }
    return plan.supportsColumnar() ? plan : null;
  }

  /** How a task writes its part. */
  private interface Body<T> extends java.io.Serializable {
    void write(LwmqDataWriter writer, Iterator<T> input);
  }

  private static <T> List<byte[]> run(RDD<T> input, LwmqDataWriterFactory factory, Body<T> body) {
    Function2<Integer, Iterator<T>, Iterator<byte[]>> task =
        (partition, values) -> List.of(task(partition, values, factory, body)).iterator();
    return new ArrayList<>(input.toJavaRDD().mapPartitionsWithIndex(task, true).collect());
  }

  private static <T> byte[] task(int partition, Iterator<T> input, LwmqDataWriterFactory factory, Body<T> body) {
    try (LwmqDataWriter writer = factory.open(partition, TaskContext.get().taskAttemptId())) {
      try {
        body.write(writer, input);
        return writer.finish().toBytes();
      } catch (Throwable e) {
        writer.abort("an attempt of task " + partition + " has failed: " + e.getMessage());
        throw e;
      }
    }
  }
}
