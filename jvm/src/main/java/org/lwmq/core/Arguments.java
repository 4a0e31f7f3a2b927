package org.lwmq.core;

/** Numbers that an application gave: below zero they would reach the library as very large ones. */
final class Arguments {
  private Arguments() {}

  /** {@code value}. INVALID: it is negative; {@code name} is what the application calls it. */
  static int notNegative(String name, int value) {
    notNegative(name, (long) value);
    return value;
  }

  /** The same for a long. */
  static long notNegative(String name, long value) {
    if (value < 0) {
      throw new LwmqException(Status.INVALID, name + " " + value + ": at least 0 is possible");
    }
    return value;
  }

  /** {@code value}. INVALID: it is below 1. */
  static int atLeastOne(String name, int value) {
    if (value < 1) {
      throw new LwmqException(Status.INVALID, name + " " + value + ": at least 1 is possible");
    }
    return value;
  }
}
