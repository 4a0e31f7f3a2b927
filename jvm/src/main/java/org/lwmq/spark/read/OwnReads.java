package org.lwmq.spark.read;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.ResultQueryStageExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import scala.jdk.javaapi.CollectionConverters;

/** Finds out what the query that writes to a stream reads itself. Driver. */
public final class OwnReads {
  private OwnReads() {}

  /**
   * INVALID where the query that is about to write on this thread will read {@code uri} to an end that is not known. It
   * would wait until all producers have ended, and it is one of them. Reads that are over before the write begins do
   * not count: subqueries, broadcasts, the stages of an adaptive plan. Reads through Spark's cache are not found.
   */
  public static void check(String uri) {
    String execution = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution query = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    if (query != null && isReadToItsEnd(uri, query.executedPlan())) {
      throw new LwmqException(
          Status.INVALID, "this query reads " + uri + " to its end, which does not come while the query itself writes"
              + " there: read what is there now, with .option(\"endingOffsets\", \"latest\"), or write elsewhere");
    }
  }

  private static boolean isReadToItsEnd(String uri, SparkPlan plan) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      return isReadToItsEnd(uri, adaptive.executedPlan());
    }
    if (plan instanceof ResultQueryStageExec last) {
      return isReadToItsEnd(uri, last.plan());
    }
    if (plan instanceof BatchScanExec read && read.scan() instanceof LwmqScan scan) {
      return scan.conf().uri().equals(uri) && scan.limit() == LwmqScan.NO_LIMIT && !scan.positions().isFinished();
    }
    return !(plan instanceof BroadcastExchangeLike)
        && CollectionConverters.asJava(plan.children()).stream().anyMatch(child -> isReadToItsEnd(uri, child));
  }
}
