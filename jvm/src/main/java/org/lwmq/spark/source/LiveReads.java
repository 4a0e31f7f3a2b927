package org.lwmq.spark.source;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The scans of one query whose streams have not ended. One producer may write to several of them in turns, so all have to run
 * at once: a scan that waits for slots which another one holds to its end waits for ever. Driver.
 */
final class LiveReads {
  private LiveReads() {}

  /**
   * How many of {@code slots} the tasks of {@code scan} may take. UNSUPPORTED: there are more such scans in the query of this
   * thread than slots. Subqueries are over before the query begins, and do not count; nor does what Spark has cached.
   */
  static int share(LwmqScan scan, int slots, SparkContext context) {
    Set<LwmqScan> scans = ofQuery(context);
    if (!scans.contains(scan)) {
      return slots;
    }
    if (scans.size() > slots) {
      String uris = scans.stream().map(each -> each.conf().uri()).collect(Collectors.joining(", "));
      throw new LwmqException(
          Status.UNSUPPORTED, "this query reads " + scans.size() + " streams that have not ended, " + uris + ", and has "
              + slots + (slots == 1 ? " slot" : " slots") + ": each needs one as long as its producers write. Ways out: more"
              + " slots, such as master local[" + scans.size() + "]; or .cache() and count() one of them first");
    }
    return slots / scans.size();
  }

  private static Set<LwmqScan> ofQuery(SparkContext context) {
    Set<LwmqScan> found = new LinkedHashSet<>();
    String execution = context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution query = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    if (query == null) {
      return found;
    }
    for (LogicalPlan leaf : CollectionConverters.asJava(query.optimizedPlan().collectLeaves())) {
      if (leaf instanceof DataSourceV2ScanRelation relation
          && relation.scan() instanceof LwmqScan scan
          && !scan.positions().isFinished()) {
        found.add(scan);
      }
    }
    return found;
  }
}
