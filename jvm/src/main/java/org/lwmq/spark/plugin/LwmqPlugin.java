package org.lwmq.spark.plugin;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import java.io.IOException;
import java.io.Serializable;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's plugin ({@code spark.plugins}) that brings the figures of all executors to the driver. There they are gauges
 * of Spark's metrics system, such as {@code executor.3.exchange.used.bytes}, for any of its sinks.
 *
 * <p>An executor sends its figures when they have changed, at most every {@value #PERIOD_MS} ms.
 */
public final class LwmqPlugin implements SparkPlugin {
  private static final Logger LOG = LoggerFactory.getLogger(LwmqPlugin.class);
  private static final long PERIOD_MS = 2_000;

  private record Figures(String executor, TreeMap<String, Long> values) implements Serializable {}

  @Override
  public DriverPlugin driverPlugin() {
    return new InDriver();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new InExecutor();
  }

  private static final class InDriver implements DriverPlugin {
    private final Set<String> executors = ConcurrentHashMap.newKeySet();
    private final Map<String, Long> latest = new ConcurrentHashMap<>(); // by the gauges' names
    private MetricRegistry registry;

    @Override
    public Map<String, String> init(SparkContext context, PluginContext plugin) {
      registry = plugin.metricRegistry();
      Gauge<Integer> gauge = executors::size;
      registry.register("executors", gauge); // a registry that is empty now is shown by no sink, ever
      return Map.of();
    }

    @Override
    public Object receive(Object message) {
      Figures figures = (Figures) message;
      executors.add(figures.executor);
      figures.values.forEach((figure, value) -> {
        String name = "executor." + figures.executor + "." + figure;
        if (latest.put(name, value) == null) {
          Gauge<Long> gauge = () -> latest.get(name);
          registry.register(name, gauge);
        }
      });
      return null;
    }
  }

  private static final class InExecutor implements ExecutorPlugin {
    private final ScheduledExecutorService timer =
        Executors.newSingleThreadScheduledExecutor(
            run -> {
              Thread thread = new Thread(run, "lwmq-gauges");
              thread.setDaemon(true);
              return thread;
            });
    private Map<String, Long> sent = Map.of();

    @Override
    public void init(PluginContext plugin, Map<String, String> unused) {
      timer.scheduleWithFixedDelay(() -> sendTo(plugin), PERIOD_MS, PERIOD_MS, TimeUnit.MILLISECONDS);
    }

    private void sendTo(PluginContext plugin) {
      TreeMap<String, Long> now = new TreeMap<>(ExecutorGauges.figures());
      if (now.equals(sent)) {
        return;
      }
      try {
        plugin.send(new Figures(plugin.executorID(), now));
        sent = now;
      } catch (IOException | RuntimeException e) { // the driver may be gone; an exception would end the timer
        LOG.debug("lwmq: the figures of this executor were not sent", e);
      }
    }

    @Override
    public void shutdown() {
      timer.shutdownNow();
    }
  }
}
