package org.lwmq.core;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Finds and loads the native half.
 *
 * <p>Two libraries, for two reasons. The core, {@code liblwmq.so}, owns threads and memory and must exist once in a
 * process. The shim, {@code liblwmq_jni.so}, belongs to one class loader, as the JVM demands; Spark makes several
 * (one for {@code spark.jars}, one per session that added the jar). So each class loader loads a copy of the shim of
 * its own, from a private folder in which the core lies beside it. The dynamic linker knows the core by its soname:
 * the first copy of the shim brings it in, every later one finds it there.
 *
 * <p>Where they come from, first match: the folder in the system property {@value #PROPERTY}, the folder in the
 * environment variable {@value #ENVIRONMENT}, the jar. The private folder is deleted as soon as both are mapped.
 */
public final class NativeLibrary {
  public static final String PROPERTY = "org.lwmq.library.path";
  public static final String ENVIRONMENT = "LWMQ_LIBRARY_PATH";

  /** Where the libraries lie in the jar, one folder per platform. */
  private static final String RESOURCES = "/org/lwmq/native/linux-";

  private static final String CORE = "liblwmq.so";
  private static final String SHIM = "liblwmq_jni.so";

  private NativeLibrary() {}

  /** Loads once per class loader. Thread-safe. UnsatisfiedLinkError says where was looked. */
  static synchronized void load() {
    try {
      Path folder = Files.createTempDirectory("lwmq-"); // mode 0700
      try {
        place(folder);
        System.load(folder.resolve(SHIM).toString());
      } finally {
        Files.deleteIfExists(folder.resolve(SHIM));
        Files.deleteIfExists(folder.resolve(CORE));
        Files.deleteIfExists(folder);
      }
    } catch (IOException e) {
      throw (UnsatisfiedLinkError)
          new UnsatisfiedLinkError("lwmq: cannot place the native libraries in " + System.getProperty("java.io.tmpdir")
              + ": " + e + "; point -D" + PROPERTY + " or " + ENVIRONMENT + " at the folder that holds " + CORE)
              .initCause(e);
    }
  }

  /** Puts the core and a fresh copy of the shim into {@code folder}. */
  private static void place(Path folder) throws IOException {
    String configured = System.getProperty(PROPERTY, System.getenv(ENVIRONMENT));
    if (configured != null && !configured.isEmpty()) {
      Path source = Path.of(configured).toAbsolutePath();
      // Copied, because one path can be loaded by one class loader only; linked, because the core is one for all.
      Files.copy(source.resolve(SHIM), folder.resolve(SHIM));
      Files.createSymbolicLink(folder.resolve(CORE), source.resolve(CORE).toRealPath());
      return;
    }
    extract(SHIM, folder);
    extract(CORE, folder);
  }

  private static void extract(String name, Path folder) throws IOException {
    String arch = System.getProperty("os.arch").equals("amd64") ? "x86_64" : System.getProperty("os.arch");
    String resource = RESOURCES + arch + "/" + name;
    try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw new UnsatisfiedLinkError("lwmq: " + resource + " is not in the jar, and neither -D" + PROPERTY + " nor "
            + ENVIRONMENT + " names a folder with " + CORE + " and " + SHIM);
      }
      Files.copy(in, folder.resolve(name), StandardCopyOption.REPLACE_EXISTING);
    }
  }
}
