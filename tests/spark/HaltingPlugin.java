package org.lwmq.test;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Halts one executor after a task of it has done all its work, its commit included, and before the driver hears of
 * it: whenever the file exists that {@code spark.lwmq.test.halt} names. Whoever takes the file away is the one.
 */
public final class HaltingPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      private Path file;

      @Override
      public void init(PluginContext context, Map<String, String> extraConf) {
        file = Path.of(context.conf().get("spark.lwmq.test.halt"));
      }

      @Override
      public void onTaskSucceeded() {
        try {
          if (Files.deleteIfExists(file)) {
            Runtime.getRuntime().halt(137);
          }
        } catch (java.io.IOException e) {
          throw new java.io.UncheckedIOException(e);
        }
      }
    };
  }
}
