package org.lwmq.spark.conf;

import com.google.crypto.tink.subtle.Hkdf;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import java.util.Map;
import org.apache.spark.SparkEnv;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Settings;
import org.lwmq.core.Status;
import org.lwmq.core.Transports;

/**
 * The keys of streams in an application that authenticates ({@code spark.authenticate}). Each stream has a key of its own,
 * which follows from the secret that Spark has given to the driver and to every executor. So both ends derive it, and no
 * key stands in an address, an option or a plan.
 */
public final class StreamKeys {
  private static final int KEY_BYTES = 32;

  private StreamKeys() {}

  /**
   * This process uses the key of the stream at {@code address} from now on, if there is one. Driver and executors.
   *
   * @return the key as a line of a key file: with it, a process that does not belong to the application reaches this
   *     stream alone. Null: the application does not authenticate, or the address takes no key or brings credentials
   */
  public static String provide(String address) {
    SparkEnv env = SparkEnv.get();
    if (env == null || !env.securityManager().isAuthenticationEnabled() || !takesKey(address)
        || bringsCredentials(address)) {
      return null;
    }
    String line = line(env, address);
    Transports.setKey(TaskAddress.name(address), line);
    return line;
  }

  /** Whether {@code address} is one where both ends prove themselves. */
  static boolean takesKey(String address) {
    return OptionReader.isTaken(TaskAddress.place(address), "psk");
  }

  private static boolean bringsCredentials(String address) {
    Map<String, String> given = Settings.ofStream(address);
    return given.containsKey("psk") || given.containsKey("certificate");
  }

  private static String line(SparkEnv env, String address) {
    String application = env.conf().getAppId();
    String identity = application + "/" + TaskAddress.name(address);
    try {
      byte[] key =
          Hkdf.computeHkdf(
              "HmacSha256", utf8(env.securityManager().getSecretKey()), utf8(application), utf8("lwmq " + identity), KEY_BYTES);
      return identity + ":" + HexFormat.of().formatHex(key);
    } catch (GeneralSecurityException e) {
      throw new LwmqException(Status.UNSUPPORTED, "no key for " + address + ": " + e.getMessage());
    }
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
