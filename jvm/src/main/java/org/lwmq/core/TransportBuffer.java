package org.lwmq.core;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A buffer of the transport itself, lent by a raw {@link Channel}. One thread. One that is forgotten, with all that
 * {@link #data} has returned, goes back by itself; until it does it lives on when the channel is closed.
 */
public final class TransportBuffer {
  static final int FIELDS = 6; // data, bytes, and four of the library's
  private static final int DATA = 0;
  private static final int BYTES = 1;

  private final Loan loan;
  private final Cleaner.Cleanable cleanable;

  private TransportBuffer(Loan loan) {
    this.loan = loan;
    this.cleanable = Handle.CLEANER.register(this, loan::forgotten);
  }

  /** What a call of {@code channel} has lent: {data, bytes, four of the library's}, counted among its {@code loans}. */
  static TransportBuffer lent(Handle channel, RawLoans loans, boolean isReceived, long[] fields) {
    return new TransportBuffer(new Loan(channel, loans, isReceived, fields));
  }

  /** Room when obtained, what arrived when received. */
  public long bytes() {
    return loan.fields[BYTES];
  }

  /**
   * The memory itself, until the buffer goes back: this buffer of Java is empty then, and throws what Java throws beyond a
   * limit. What was made of it (slice, duplicate), or is used by another thread at that moment, cannot be ended so, and must
   * not be touched any more: the memory is the transport's again, where a write changes what the peer has received and a
   * read sees what others send; it is gone with the peer and the channel, where touching it ends the JVM. INVALID: it went
   * back. TOO_BIG: more than 2 GiB - 1.
   */
  public ByteBuffer data() {
    return data(0, bytes());
  }

  /** The {@code bytes} bytes at {@code offset} of it, of a large one piece by piece. */
  public ByteBuffer data(long offset, long bytes) {
    loan.check();
    if (offset < 0 || bytes < 0 || offset > bytes() - bytes) {
      throw new LwmqException(Status.INVALID, bytes + " bytes at " + offset + " of a buffer of " + bytes());
    }
    ByteBuffer data = Jni.wrap(loan.fields[DATA] + offset, bytes);
    Handle.CLEANER.register(data, () -> Reference.reachabilityFence(this)); // and so what lent it
    ByteBuffer shown = loan.isReceived ? data.asReadOnlyBuffer() : data;
    loan.show(shown);
    return shown;
  }

  /**
   * The buffer is to go back to {@code channel}. INVALID for one that did already, that goes the wrong way, or is of another
   * channel; TOO_BIG: {@code bytes} are more than it has. It stays the caller's then.
   */
  void take(Handle channel, boolean isReceived, long bytes) {
    loan.check();
    if (isReceived != loan.isReceived) {
      throw new LwmqException(Status.INVALID, "a buffer that was received is disposed of, one that was obtained is sent");
    }
    if (channel != loan.channel) {
      throw new LwmqException(
          Status.INVALID, "a buffer of " + loan.channel.what() + ", not of " + channel.what());
    }
    if (bytes > bytes()) {
      throw new LwmqException(Status.TOO_BIG, bytes + " bytes of a buffer of " + bytes());
    }
    loan.end();
    cleanable.clean();
  }

  /** As the library knows it, with {@code bytes} used. */
  long[] fields(long bytes) {
    long[] used = loan.fields.clone();
    used[BYTES] = bytes;
    return used;
  }

  @Override
  public String toString() {
    String way = loan.isReceived ? "received" : "to send";
    String state = loan.isLent.get() ? bytes() + " bytes" : "given back";
    return "TransportBuffer " + way + " of " + loan.channel.what() + ", " + state;
  }

  /** What outlives the buffer. */
  private static final class Loan {
    final Handle channel;
    final RawLoans loans;
    final boolean isReceived; // else it was obtained to be sent
    final long[] fields;
    private final AtomicBoolean isLent = new AtomicBoolean(true);
    private final List<WeakReference<ByteBuffer>> views = new ArrayList<>(1); // guarded by this
    private int lookAt = 16; // when there are so many, for those that nobody holds

    Loan(Handle channel, RawLoans loans, boolean isReceived, long[] fields) {
      this.channel = channel;
      this.loans = loans;
      this.isReceived = isReceived;
      this.fields = fields;
    }

    void check() {
      if (!isLent.get()) {
        throw wentBack();
      }
    }

    /** What was shown is empty from now on. INVALID where another thread was first. */
    synchronized void end() {
      if (!isLent.compareAndSet(true, false)) {
        throw wentBack();
      }
      for (WeakReference<ByteBuffer> known : views) {
        ByteBuffer view = known.get();
        if (view != null) {
          view.limit(0);
        }
      }
      views.clear();
    }

    private static LwmqException wentBack() {
      return new LwmqException(Status.INVALID, "this buffer went back already");
    }

    /** Until {@link #end}. */
    synchronized void show(ByteBuffer view) {
      check(); // another thread may have sent it
      if (views.size() >= lookAt) {
        views.removeIf(known -> known.refersTo(null));
        lookAt = 2 * views.size() + 1;
      }
      views.add(new WeakReference<>(view));
    }

    void forgotten() {
      if (isLent.get()) {
        loans.giveBack(channel, isReceived, fields);
      }
    }
  }
}
