package org.lwmq.spark.conf;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.SparkEnv;
import org.lwmq.core.Endpoints;
import org.lwmq.core.Identity;
import org.lwmq.core.Limits;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;

/**
 * Where the tasks of a job find its stream. Made in the driver, used in executors.
 *
 * @param addresses in the order in which a task tries them
 * @param endpoint the process that serves the stream
 */
public record TaskAddress(List<String> addresses, Identity endpoint) implements Serializable {
  private static final Pattern NETWORK = Pattern.compile("(\\w+://)(\\[[^\\]]*\\]|[^:/?\\[]+)(:[^/?]*)(/[^?]*)?(.*)");
  private static final Set<String> EVERY_INTERFACE = Set.of("*", "0.0.0.0", "[::]", "::");
  /** How long a task waits for an answer at one of several addresses. */
  private static final int LOOK_MS = 3000;

  /**
   * The addresses of the stream that {@code state} describes: the one that the driver uses, then the others at which the
   * endpoint serves it. If the driver's is encrypted, no address of a network that is not stands among them. Driver.
   *
   * @param given in the read or write
   * @param announce if this process serves the stream: the host, or host and port, that tasks try first; null: none
   * @param settings of providers, which go to every address that takes them
   */
  public static TaskAddress of(String given, String announce, Map<String, String> settings, StreamState state) {
    Identity endpoint = state.endpoint();
    String told = told(given);
    Map<String, String> byPlace = new LinkedHashMap<>();
    if (announce != null && Endpoints.serves(given)) {
      String announced = announced(told, announce);
      byPlace.put(place(announced), announced);
    }
    byPlace.putIfAbsent(place(told), told);
    String host = isHere(endpoint) ? driverHost() : host(told).isEmpty() ? endpoint.host() : host(told);
    for (String bound : state.addresses()) {
      String address = atHost(bound, host);
      if (!StreamKeys.takesKey(told) || StreamKeys.takesKey(address) || host(address).isEmpty()) {
        byPlace.putIfAbsent(place(address), OptionReader.withSettings(address, settings));
      }
    }
    return new TaskAddress(List.copyOf(byPlace.values()), endpoint);
  }

  /**
   * As {@link #told}. If nobody serves the address, this process does from now on. In an application that authenticates
   * it has the key of the stream. Driver.
   */
  public static String serve(String given) {
    StreamKeys.provide(given);
    Endpoints.ensureServed(given);
    return told(given);
  }

  /**
   * The address that driver and tasks use in place of {@code given}. On another host a driver is not reached at {@code
   * *}, which stands for every interface, nor at the port 0. So it is the host under which executors know the driver, and
   * the port that the system has chosen. Driver.
   */
  public static String told(String given) {
    return atHost(Endpoints.bound(given), driverHost());
  }

  /** {@code address}, if it is one of a network, at the host or host and port {@code announce}. */
  private static String announced(String address, String announce) {
    Matcher parts = NETWORK.matcher(address);
    boolean hasPort = announce.matches("(\\[.*\\]|[^:]*):\\d+");
    return parts.matches()
        ? parts.group(1) + announce + (hasPort ? "" : parts.group(3)) + text(parts.group(4)) + parts.group(5)
        : address;
  }

  /** The host in {@code address}, if it is one of a network; else an empty text. */
  static String host(String address) {
    Matcher parts = NETWORK.matcher(address);
    return parts.matches() ? parts.group(2) : "";
  }

  /** The name behind the port of {@code address}, if it is one of a network and has one; else an empty text. */
  static String name(String address) {
    Matcher parts = NETWORK.matcher(address);
    return parts.matches() && parts.group(4) != null ? parts.group(4).substring(1) : "";
  }

  /** {@code address} without its options. */
  static String place(String address) {
    return address.split("\\?", 2)[0];
  }

  /**
   * Names of the host that has the windows, where tasks should preferably run. Spark knows executors by a name that may
   * differ from the name that the host has for itself; it may be the one in an address. A name that no executor has does
   * no harm. Driver.
   */
  public String[] hosts() {
    Set<String> names = new LinkedHashSet<>(List.of(endpoint.host()));
    addresses.forEach(address -> names.add(host(address)));
    if (isHere(endpoint)) {
      names.add(driverHost());
    }
    names.remove("");
    return names.toArray(String[]::new);
  }

  private static boolean isHere(Identity process) {
    Identity here = Identity.here();
    return process.bootId().equals(here.bootId()) && process.netns() == here.netns();
  }

  /** {@code address} with {@code host} where it stands for every interface. */
  private static String atHost(String address, String host) {
    Matcher parts = NETWORK.matcher(address);
    return parts.matches() && EVERY_INTERFACE.contains(parts.group(2))
        ? parts.group(1) + host + parts.group(3) + text(parts.group(4)) + parts.group(5)
        : address;
  }

  private static String text(String part) {
    return part == null ? "" : part;
  }

  private static String driverHost() {
    Identity here = Identity.here();
    SparkEnv env = SparkEnv.get();
    String known = env == null ? here.host() : env.blockManager().blockManagerId().host();
    return EVERY_INTERFACE.contains(known) ? here.host() : known;
  }

  /**
   * The first address that this process can reach and where the planned process answers. A task asks before it opens
   * anything, so that it fails at once instead of waiting in vain. ADDRESS: there is none; the text says of each why not.
   */
  public String reach() {
    List<LwmqException> failures = new ArrayList<>();
    for (String address : addresses) {
      try {
        checkReachable(address, endpoint);
        StreamKeys.provide(address);
        if (addresses.size() > 1) {
          checkInstance(address);
        }
        return address;
      } catch (LwmqException e) {
        failures.add(e);
      }
    }
    if (failures.size() == 1) {
      throw failures.get(0);
    }
    throw new LwmqException(
        Status.ADDRESS, "this task on " + Identity.here().host() + " reaches the endpoint at none of its " + addresses.size()
            + " addresses: " + failures.stream().map(Throwable::getMessage).collect(Collectors.joining("; ")));
  }

  /** ADDRESS if another process than the planned one serves {@code address}, as behind a port that was given away. */
  private void checkInstance(String address) {
    Identity found = StreamState.look(address, LOOK_MS).endpoint();
    if (!found.instance().equals(endpoint.instance())) {
      throw new LwmqException(
          Status.ADDRESS, address + " leads from here to process " + found.pid() + " on " + found.host()
              + ", and the stream is served by process " + endpoint.pid() + " on " + endpoint.host());
    }
  }

  /**
   * ADDRESS if this process cannot reach {@code endpoint} at an address of that kind.
   */
  private static void checkReachable(String address, Identity endpoint) {
    Limits limits = Limits.of(address);
    Identity here = Identity.here();
    boolean isSameHost = here.bootId().equals(endpoint.bootId());
    String overNetwork = "serve the stream at an address of a network, such as tcp://" + endpoint.host() + ":7000/name";
    if (limits.isInProcess() && !here.instance().equals(endpoint.instance())) {
      throw new LwmqException(
          Status.ADDRESS, address + " is served by process " + endpoint.pid() + " on host " + endpoint.host()
              + ", this task runs in process " + here.pid() + " on " + here.host()
              + ": the address reaches one process only");
    }
    if (limits.canShareWindow() && !isSameHost) {
      throw new LwmqException(
          Status.ADDRESS, "the window of " + address + " is on host " + endpoint.host() + ", this task runs on "
              + here.host() + ": an address of shared memory reaches one host only; " + overNetwork);
    }
    if (!limits.isInNetwork() || isHere(endpoint)) {
      return;
    }
    throw new LwmqException(
        Status.ADDRESS, address + " is served in network namespace " + endpoint.netns() + " of host " + endpoint.host()
            + ", this task runs in " + here.netns() + " on " + here.host()
            + (limits.canShareWindow()
                ? ": share the namespace, use ipc:///dir/name in a folder that both see, or "
                : ": a loopback address reaches its own namespace only; ")
            + overNetwork);
  }
}
