package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Modules, their signatures, and what they bring; the shared object is one of the JVM's own. */
class ModulesTest {
  @TempDir Path folder;

  private Path sharedObject() throws IOException {
    Path source = Path.of(System.getProperty("java.home"), "lib", "libverify.so");
    return Files.copy(source, folder.resolve("a-module.so"));
  }

  // rows: L39
  @Test
  void whoSignedAModuleIsSeen() throws IOException {
    Path module = sharedObject();
    Path key = folder.resolve("my.key");
    Path trust = folder.resolve("trusted");
    String shared = Modules.makeKey(key);
    Files.writeString(trust, "ed25519 " + shared + " alice\n");
    Instant expires = Instant.now().plus(1, ChronoUnit.DAYS).truncatedTo(ChronoUnit.SECONDS);

    Modules.Module unsigned = Modules.verify(module, trust);
    assertEquals(Status.DENIED, unsigned.status());
    assertEquals(Optional.empty(), unsigned.expires());

    Modules.sign(module, key, expires);
    Modules.Module signed = Modules.verify(module, trust);
    assertEquals(Status.OK, signed.status(), signed.text());
    assertEquals("alice", signed.signer());
    assertEquals(shared, signed.key());
    assertEquals(Optional.of(expires), signed.expires());
    assertEquals(module, signed.path());
    assertFalse(signed.isLoaded());

    Files.writeString(trust, "# nobody\n");
    Modules.Module stranger = Modules.verify(module, trust);
    assertEquals(Status.DENIED, stranger.status());
    assertEquals(shared, stranger.key());
    assertTrue(stranger.text().contains(shared), stranger.text());

    byte[] bytes = Files.readAllBytes(module);
    bytes[bytes.length / 2] ^= 1;
    Files.write(module, bytes);
    assertEquals(Status.DENIED, Modules.verify(module, trust).status());
  }

  @Test
  void whatCannotBeDoneIsThrown() throws IOException {
    Path module = sharedObject();
    Path nowhere = folder.resolve("nowhere");
    assertThrows(LwmqException.class, () -> Modules.sign(module, nowhere, Instant.now()));
    Path key = folder.resolve("key");
    Modules.makeKey(key);
    assertThrows(LwmqException.class, () -> Modules.makeKey(key)); // it is there
    assertFalse(Modules.verify(nowhere, null).text().isEmpty());
  }

  /** The runner has put a file there that nobody has signed. */
  @Test
  void whatIsRefusedIsListed() {
    List<Modules.Module> modules = Modules.list();
    assertEquals(1, modules.size());
    assertEquals("unsigned.so", modules.get(0).path().getFileName().toString());
    assertEquals(Status.DENIED, modules.get(0).status());
    assertFalse(modules.get(0).isLoaded());
    assertFalse(modules.get(0).text().isEmpty());
  }

  @Test
  void whatThereIsBuiltInIsNamed() {
    assertTrue(Transports.providers().containsAll(List.of("ipc", "loop")), Transports.providers().toString());
    assertTrue(Transports.filters().get("rate").startsWith("rate=BYTES"), Transports.filters().toString());
    Transports.filters().forEach((name, help) -> assertFalse(help.isEmpty(), name));
  }
}
