package org.lwmq.core;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A block of the writer's own window, lent by {@link Writer#allocate}; it goes back through publish or discard, after
 * which its memory must not be written to. 64-byte aligned. One thread.
 */
public final class Block {
  final long[] fields = new long[Jni.BLOCK_LONGS];

  private final Handle writer;
  private final AtomicInteger viewsLeft; // of blocks of this writer that have gone back
  private ByteBuffer view; // what all buffers show, which hold it; ours until the block goes back

  Block(Handle writer, AtomicInteger viewsLeft) {
    this.writer = writer;
    this.viewsLeft = viewsLeft;
  }

  /** Address of the first byte; 0 once given back. */
  public long address() {
    return fields[Jni.BLOCK_DATA];
  }

  /** At least what was asked for. */
  public long bytes() {
    return fields[Jni.BLOCK_BYTES];
  }

  /**
   * The block as a direct buffer (of at most 2 GiB). As long as somebody holds it, or what was made of it, the memory is the
   * block's, also behind publish, discard, and the end of the writer: who looks at it then sees what was published. But it
   * must not be written to behind publish, where readers look at it: Java cannot take that back. INVALID: the block has gone
   * back. CLOSED. TOO_BIG: 2 GiB and more.
   */
  public ByteBuffer buffer() {
    return writer.call(
        w -> {
          if (address() == 0) {
            throw new LwmqException(Status.INVALID, "this block went back already");
          }
          if (view == null) {
            view = held(w);
          }
          return view.duplicate();
        });
  }

  private ByteBuffer held(long ofWriter) {
    ByteBuffer all = Jni.wrap(address(), bytes());
    long hold = Jni.writerHold(ofWriter, fields);
    Handle.CLEANER.register(all, () -> Jni.holdEnd(hold));
    return all;
  }

  /** INVALID: another writer has lent it. */
  void checkIsOf(Handle other) {
    if (writer != other) {
      throw new LwmqException(Status.INVALID, "a block of another " + writer.what());
    }
  }

  /** It was given back. In a call of its writer. */
  void wentBack() {
    fields[Jni.BLOCK_DATA] = 0;
    if (view != null) {
      AtomicInteger left = viewsLeft;
      left.incrementAndGet();
      Handle.CLEANER.register(view, left::decrementAndGet);
      view = null;
    }
  }
}
