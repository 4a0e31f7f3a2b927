package org.lwmq.core;

import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Providers and filters from outside, and the signatures without which they are not loaded: {@code lwmq.h} says how
 * {@code $LWMQ_MODULE_PATH} is looked through, and what the trust file is.
 */
public final class Modules {
  private Modules() {}

  /**
   * A shared object that was found.
   *
   * @param path where
   * @param name that it gives itself; empty where it was not loaded
   * @param status {@link Status#OK}, or why it is refused
   * @param isLoaded into this process
   * @param key of its signature, hexadecimal, also where it is not trusted; empty where there is none
   * @param signer name of the key in the trust file; empty where it is not there
   * @param expires when the signature does
   * @param text why it is refused, in words
   */
  public record Module(
      Path path, String name, Status status, boolean isLoaded, String key, String signer, Optional<Instant> expires,
      String text) {}

  /** Those of {@code $LWMQ_MODULE_PATH}, loaded or refused. */
  public static List<Module> list() {
    List<Module> found = new ArrayList<>();
    byte[][] texts = new byte[5][];
    for (long[] numbers; (numbers = Jni.queryModule(found.size(), texts)) != null; ) {
      found.add(module(numbers, texts));
    }
    return found;
  }

  /**
   * Checks {@code module} as if it were to be loaded, without loading it. {@code trust}: the trust file; null: the one
   * that this process goes by. A refusal is an answer: {@link Module#status}. DENIED: no signature, not of these bytes, of a
   * key that is not trusted, or expired. CORRUPT: the signature or the trust file is malformed.
   */
  public static Module verify(Path module, Path trust) {
    byte[][] texts = new byte[5][];
    return module(Jni.moduleVerify(utf8(module), trust == null ? null : utf8(trust), texts), texts);
  }

  /** Writes {@code module}.sig with the secret key in the file {@code key}. It names the module: both keep their names. */
  public static void sign(Path module, Path key, Instant expires) {
    Jni.moduleSign(utf8(module), utf8(key), Math.max(0, expires.getEpochSecond()));
  }

  /**
   * Makes a key, and writes its secret to the new file {@code key}, which only its owner may read. Returns the public half,
   * which stands in a trust file as KEY of {@code ed25519 KEY NAME}.
   */
  public static String makeKey(Path key) {
    return Identity.text(Jni.moduleMakeKey(utf8(key)));
  }

  private static byte[] utf8(Path path) {
    return Jni.utf8(path.toString());
  }

  private static Module module(long[] numbers, byte[][] texts) {
    long expires = numbers[Jni.MODULE_EXPIRES_S];
    return new Module(
        Path.of(Identity.text(texts[0])),
        Identity.text(texts[1]),
        Status.of((int) numbers[Jni.MODULE_STATUS]),
        numbers[Jni.MODULE_LOADED] != 0,
        Identity.text(texts[2]),
        Identity.text(texts[3]),
        expires == 0 ? Optional.empty() : Optional.of(Instant.ofEpochSecond(expires)),
        Identity.text(texts[4]));
  }
}
