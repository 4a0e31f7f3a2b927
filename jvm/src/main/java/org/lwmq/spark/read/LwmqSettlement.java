package org.lwmq.spark.read;

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
 * Tells endpoints which executions have succeeded. The batches that those have read are acknowledged; the batches of
 * failed ones are read again. Driver, one per SparkContext, registered by the first read.
 *
 * <p>An execution is over when it has ended itself and the last job under its root has ended: a job may outlive the
 * execution that started it, and an execution works on after its last job. Whether it has succeeded is told by its own
 * end alone, because adaptive execution cancels jobs that it no longer needs. A job that belongs to no execution, or
 * that begins after the end of its execution, counts by itself. A lost event leaves batches unacknowledged, never
 * acknowledged.
 *
 * <p>Spark calls on its listener thread. A {@link Settler} talks to the endpoints, so that a slow one holds up nobody.
 */
final class LwmqSettlement extends SparkListener {
  private static final Map<SparkContext, LwmqSettlement> REGISTERED = new WeakHashMap<>();
  private static final int ENDED_MAX = 1000;

  /** Carries out what was decided. */
  interface Settler {
    /**
     * Tells the endpoints at {@code uris} whether {@code readers} have succeeded. The addresses are asked for when the
     * work begins. {@code gone} gets the addresses at which nobody answers any more.
     */
    void settle(Supplier<List<String>> uris, List<String> readers, boolean succeeded, Consumer<String> gone);

    /** The application ends: finishes the work so far. */
    void close();
  }

  private final String application;
  private final Settler settler;
  /** The addresses from which this application has read, the latest first, since its endpoint waits for an answer. */
  private final Deque<String> uris = new ArrayDeque<>();
  private final Map<String, Integer> jobsRunning = new HashMap<>();
  private final Map<Integer, String> rootOfJob = new HashMap<>();
  /** The readers of jobs that count by themselves. */
  private final Map<Integer, List<String>> readersOfJob = new HashMap<>();
  /** The last executions that have ended, with their success. Jobs of them may still run, or even begin. */
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

  /** The settlement of {@code context}, which is registered on first use. */
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

  /** From now on the ends of executions are reported to {@code uri}, until nobody answers there. */
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
    if (root != null && ended.containsKey(root)) { // toLocalIterator: the execution ends before its first job
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
      String root = Long.toString(end.executionId()); // an execution inside of another one is the root of no job
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
