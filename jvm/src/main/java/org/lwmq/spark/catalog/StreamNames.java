package org.lwmq.spark.catalog;

import java.util.Arrays;
import java.util.TreeSet;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Observer;

/** The names of tables of the catalog, and the addresses of streams. Driver. */
final class StreamNames {
  /** The namespace of the streams of this host. */
  static final String[] HERE = {"here"};

  /** How long an endpoint may take to answer before its stream is not listed. */
  private static final int LOOK_MS = 150;

  private static final String IPC = "ipc://";

  private StreamNames() {}

  /** Whether tables may be in {@code namespace}: it is {@code here}, or left out. */
  static boolean isNamespace(String[] namespace) {
    return namespace.length == 0 || Arrays.equals(namespace, HERE);
  }

  /** The address that the name of a table means. */
  static String address(Identifier table) {
    return table.name().contains("://") ? table.name() : IPC + table.name();
  }

  /** The name of the table at {@code address}. */
  static Identifier table(String address) {
    return Identifier.of(HERE, address.startsWith(IPC) ? address.substring(IPC.length()) : address);
  }

  /**
   * The declared streams that processes of this host serve, as far as {@code lwmq top} sees those processes. A stream
   * whose process does not answer is left out.
   */
  static Identifier[] here() {
    TreeSet<String> addresses = new TreeSet<>();
    try (Observer observer = new Observer()) {
      for (Observer.Process process : observer.look()) {
        process.entries().stream()
            .filter(entry -> entry.kind() == Observer.Kind.ENDPOINT)
            .forEach(entry -> addresses.add(entry.address()));
      }
    }
    return addresses.stream()
        .map(StreamNames::table)
        .filter(StreamNames::answers)
        .toArray(Identifier[]::new);
  }

  private static boolean answers(Identifier table) {
    try {
      return FoundStream.at(table, LOOK_MS).isPresent();
    } catch (LwmqException e) {
      return false;
    }
  }
}
