package org.lwmq.core;

/** The threads of the library: few, started once, and placed where the program wants them. */
public final class ServiceThreads {
  private ServiceThreads() {}

  /**
   * Ties them to {@code processors}, those that run and those to come; none: where the main thread may run. INVALID: one of
   * them is not there, or not allowed for this process; nothing has changed then.
   */
  public static void setAffinity(int... processors) {
    for (int processor : processors) {
      Arguments.notNegative("processor", processor);
    }
    Jni.setServiceAffinity(processors.clone());
  }
}
