package org.lwmq.spark.source;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells endpoints which executions have succeeded, so that what those have read is acknowledged, and what failed ones
 * have read is read again. Lives in the driver, one per SparkContext, registered by the source itself.
 *
 * <p>An execution is over at the later of its own end and the end of the last job under its root: a job may outlive
 * the execution that started it, and an execution has work after its last job. Whether it succeeded is what its own
 * end says: adaptive execution cancels jobs that it no longer needs. A job outside of any execution, or after the end
 * of its own, speaks for itself.
 * An event that is lost leaves batches unacknowledged, never acknowledged.
 *
 * <p>Spark calls from its listener thread; {@link Settler} does the talking, so that a slow peer holds up nobody.
 */
final class LwmqSettlement extends SparkListener {
  private static final Map<SparkContext, LwmqSettlement> REGISTERED = new WeakHashMap<>();
  private static final int ENDED_MAX = 1000;

  /** Does what was decided. */
  interface Settler {
    /**
     * Tells everybody who is watched when it comes to it; {@code readers} all have the same fate. {@code gone} hears of
     * those who are not there any more.
     */
    void settle(Supplier<List<String>> uris, List<String> readers, boolean succeeded, Consumer<String> gone);

    /** The application ends: finishes what was asked for. */
    void close();
  }

  private final String application;
  private final Settler settler;
  /** Of whom this application has read, the latest first: that is who waits for an answer. */
  private final Deque<String> uris = new ArrayDeque<>();
  private final Map<String, Integer> jobsRunning = new HashMap<>();
  private final Map<Integer, String> rootOfJob = new HashMap<>();
  /** Of jobs that speak for themselves. */
  private final Map<Integer, List<String>> readersOfJob = new HashMap<>();
  /** Executions that have ended, the last ones, with their success: a job may still run, or even begin. */
  private final Map<String, Boolean> ended =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
          return size() > ENDED_MAX;
        }
      };

  LwmqSettlement(String application, Settler settler) {
    this.application = application;
    this.settler = settler;
  }

  /** The one of {@code context}; registers it on first use. */
  static LwmqSettlement of(SparkContext context) {
    synchronized (REGISTERED) {
      return REGISTERED.computeIfAbsent(
          context,
          c -> {
            LwmqSettlement made = new LwmqSettlement(c.applicationId(), new StreamSettler());
            c.addSparkListener(made);
            return made;
          });
    }
  }

  /** From now on, executions that end are reported to {@code uri}, until it is gone. */
  synchronized void watch(String uri) {
    uris.remove(uri);
    uris.addFirst(uri);
  }

  private synchronized List<String> watched() {
    return List.copyOf(uris);
  }

  private synchronized void forget(String uri) {
    uris.remove(uri);
  }

  @Override
  public synchronized void onJobStart(SparkListenerJobStart start) {
    String root = ReaderNames.root(start.properties());
    List<String> readers = new ArrayList<>();
    if (root != null && ended.containsKey(root)) { // toLocalIterator: its execution is over before the first job
      readers.add(ReaderNames.ofRoot(application, root));
      readersOfJob.put(start.jobId(), readers);
      return;
    }
    if (root != null) {
      rootOfJob.put(start.jobId(), root);
      jobsRunning.merge(root, 1, Integer::sum);
      return;
    }
    CollectionConverters.asJava(start.stageInfos())
        .forEach(stage -> readers.add(ReaderNames.ofStage(application, stage.stageId())));
    readersOfJob.put(start.jobId(), readers);
  }

  @Override
  public synchronized void onJobEnd(SparkListenerJobEnd end) {
    List<String> readers = readersOfJob.remove(end.jobId());
    if (readers != null) {
      settle(readers, end.jobResult() == JobSucceeded$.MODULE$);
      return;
    }
    String root = rootOfJob.remove(end.jobId());
    if (root != null && jobsRunning.merge(root, -1, Integer::sum) == 0) {
      settleIfOver(root);
    }
  }

  @Override
  public synchronized void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionEnd end) {
      String root = Long.toString(end.executionId()); // one that is nested in another is nobody's root
      ended.put(root, end.errorMessage().isEmpty() || end.errorMessage().get().isEmpty());
      settleIfOver(root);
    }
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd end) {
    settler.close();
  }

  private void settleIfOver(String root) {
    Boolean succeeded = ended.get(root);
    if (succeeded != null && jobsRunning.remove(root, 0)) {
      settle(List.of(ReaderNames.ofRoot(application, root)), succeeded);
    }
  }

  private void settle(List<String> readers, boolean succeeded) {
    if (!uris.isEmpty()) {
      settler.settle(this::watched, readers, succeeded, this::forget);
    }
  }
}
