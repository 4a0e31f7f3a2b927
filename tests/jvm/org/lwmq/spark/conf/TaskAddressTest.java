package org.lwmq.spark.conf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.lwmq.core.Endpoint;
import org.lwmq.core.Endpoints;
import org.lwmq.core.Identity;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;

/** Which addresses tasks are told, and which one they take. */
class TaskAddressTest {
  private static final Identity FAR = new Identity("far.away", "boot", 7, "ab", 1, 2);
  private static final Identity HERE = Identity.here();
  private static final String NOBODY = "tcp://127.0.0.1:1/nobody";
  private static final String NAME = "task-address-" + HERE.pid();

  @Test
  void tasksAreToldEveryAddressOnceWithAHostForEveryInterface() {
    assertEquals(
        List.of("ipc://x", "tcp://far.away:7000/x"),
        all("ipc://x", Map.of(), FAR, "ipc://x", "tcp://*:7000/x"));
    assertEquals(
        List.of("tcp://a:7000/x", "ipc://x", "tcp://10.0.0.7:7000/x"),
        all("tcp://a:7000/x", Map.of(), FAR, "tcp://*:7000/x", "ipc://x", "tcp://10.0.0.7:7000/x"));
    assertEquals(
        List.of("ipc://x", "tcp://" + HERE.host() + ":7000/x"),
        all("ipc://x", Map.of(), HERE, "tcp://[::]:7000/x"));
    assertEquals(
        List.of("ipc://x", "vsock://3:7000/x", "tcp://far.away:7000/x"),
        all("ipc://x", Map.of(), FAR, "vsock://3:7000/x", "tcp://*:7000/x"));
  }

  @Test
  void settingsGoToTheAddressesThatTakeThem() {
    assertEquals(
        List.of("ipc://x", "tcps://far.away:7000/x?psk=/k", "tcp://far.away:7001/x"),
        all("ipc://x", Map.of("psk", "/k"), FAR, "tcps://*:7000/x", "tcp://*:7001/x"));
    assertEquals(
        List.of("ipc://x", "vsocks://3:7000/x?psk=/k"),
        all("ipc://x", Map.of("psk", "/k"), FAR, "vsocks://3:7000/x"));
    assertEquals(
        List.of("ipc://x", "tcps://far.away:7000/x?stream=s&psk=/k"),
        all("ipc://x", Map.of("psk", "/k"), FAR, "tcps://*:7000/x?stream=s"));
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(Map.of("path", "ipc://x", "psk", "/k"));
    assertEquals(Map.of("psk", "/k"), LwmqReadConf.of(given).settings());
    assertEquals("ipc://x", LwmqReadConf.of(given).uri());
  }

  @Test
  void aTaskTakesTheFirstAddressThatItReaches() {
    try (Endpoint endpoint = Endpoint.open("ipc://" + NAME)) {
      String served = endpoint.address();
      assertEquals(served, new TaskAddress(List.of(NOBODY, served), HERE).reach());
      assertEquals(served, new TaskAddress(List.of(served, NOBODY), HERE).reach());
      assertEquals(served, new TaskAddress(List.of("vsock://1:1/nobody", served), HERE).reach());
    }
  }

  @Test
  void aTaskPassesOverAnAddressThatAnotherProcessServes() {
    Identity other = new Identity(HERE.host(), HERE.bootId(), HERE.netns(), "ab", 4711, 2);
    try (Endpoint endpoint = Endpoint.open("tcp://127.0.0.1:0/" + NAME)) {
      String text = refusal(other, "loop://x", endpoint.address(), NOBODY);
      assertTrue(
          text.startsWith("this task on " + HERE.host() + " reaches the endpoint at none of its 3 addresses: loop://x is"),
          text);
      assertTrue(text.contains("; " + endpoint.address() + " leads from here to process " + HERE.pid()), text);
      assertTrue(text.contains("and the stream is served by process 4711"), text);
      assertTrue(text.contains("; " + NOBODY + ": nobody serves this address"), text);
    }
  }

  @Test
  void aTaskOnAnotherHostIsToldOfEachAddressWhyItDoesNotReach() {
    String text = refusal(FAR, "ipc://x", "tcp://127.0.0.1:7000/x");
    assertTrue(text.contains("none of its 2 addresses: the window of ipc://x is on host far.away"), text);
    assertTrue(text.contains("; tcp://127.0.0.1:7000/x is served in network namespace 7 of host far.away"), text);
  }

  @Test
  void tasksTryFirstWhatADriverAnnouncesOfItsOwnEndpoint() {
    String given = "tcp://127.0.0.1:0/announced-" + NAME;
    String told = TaskAddress.serve(given);
    StreamState state = StreamState.look(told, 10_000);
    String announced = told.replace("127.0.0.1", "10.0.0.7");
    assertEquals(List.of(announced, told), TaskAddress.of(given, "10.0.0.7", Map.of(), state).addresses());
    announced = "tcp://[fe80::1]:7000/announced-" + NAME;
    assertEquals(List.of(announced, told), TaskAddress.of(given, "[fe80::1]:7000", Map.of(), state).addresses());
    assertEquals(List.of(told), TaskAddress.of(told, "10.0.0.7", Map.of(), state).addresses());
    Endpoints.closeRead();
  }

  @Test
  void anAddressThatIsNotEncryptedIsNoSubstituteForOneThatIs() {
    String[] bound = {"ipc://x", "tcp://*:7001/x", "tcps://*:7000/x"};
    assertEquals(List.of("tcps://a:7000/x", "ipc://x"), all("tcps://a:7000/x", Map.of(), FAR, bound));
    assertEquals(
        List.of("tcp://a:7001/x", "ipc://x", "tcps://a:7000/x"), all("tcp://a:7001/x", Map.of(), FAR, bound));
  }

  private static String refusal(Identity endpoint, String... addresses) {
    TaskAddress where = new TaskAddress(List.of(addresses), endpoint);
    LwmqException refused = assertThrows(LwmqException.class, where::reach);
    assertEquals(Status.ADDRESS, refused.status());
    return refused.getMessage();
  }

  private static List<String> all(String told, Map<String, String> settings, Identity endpoint, String... bound) {
    StreamState state =
        new StreamState("00", StreamState.State.OPEN, 0, 1, 0, 0, null, List.of(), endpoint, List.of(bound));
    return TaskAddress.of(told, null, settings, state).addresses();
  }
}
