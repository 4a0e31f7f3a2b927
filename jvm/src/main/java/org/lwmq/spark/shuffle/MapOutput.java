package org.lwmq.spark.shuffle;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import org.lwmq.core.Memory;
import org.lwmq.spark.shuffle.ExchangeMemory.Block;

/**
 * The batches that one map task has written, by partition: each in a block of memory or in the file of the task.
 *
 * <p>The task's thread adds batches. From {@link ExchangeStore#add} on nothing changes any more, and any thread may
 * read. A reader holds the output while it reads ({@link #tryRetain}), so that the memory outlives it.
 */
final class MapOutput {
  /** One Arrow message. {@code block} is null where it lies in the file, at {@code offset}. */
  record Piece(Block block, long offset, long bytes) {}

  private final ExchangeMemory memory;
  private final List<List<Piece>> pieces; // by partition
  private final long[] lengths;
  private File file; // null: nothing was moved to it
  private FileChannel channel;
  private long fileEnd;
  private int references = 1;

  MapOutput(ExchangeMemory memory, int partitions) {
    this.memory = memory;
    this.pieces = new ArrayList<>(Collections.nCopies(partitions, List.of()));
    this.lengths = new long[partitions];
  }

  /** Bytes of the batches of each partition. */
  long[] lengths() {
    return lengths;
  }

  List<Piece> pieces(int partition) {
    return pieces.get(partition);
  }

  /** Takes a batch, which the first {@code bytes} of {@code block} hold. */
  void add(int partition, Block block, long bytes) {
    if (pieces.get(partition).isEmpty()) {
      pieces.set(partition, new ArrayList<>(1));
    }
    pieces.get(partition).add(new Piece(block, 0, bytes));
    lengths[partition] += bytes;
  }

  /**
   * Moves all batches that are in memory to the file of this output, which {@code newFile} makes at first. Returns
   * their bytes.
   */
  long spill(Supplier<File> newFile) throws IOException {
    if (channel == null) {
      file = newFile.get();
      channel = FileChannel.open(
          file.toPath(), StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE);
    }
    long moved = 0;
    for (List<Piece> some : pieces) {
      for (int i = 0; i < some.size(); i++) {
        Piece piece = some.get(i);
        if (piece.block != null) {
          some.set(i, new Piece(null, append(piece), piece.bytes));
          memory.free(piece.block);
          moved += piece.bytes;
        }
      }
    }
    return moved;
  }

  private long append(Piece piece) throws IOException {
    long at = fileEnd;
    ByteBuffer bytes = Memory.wrap(piece.block.address(), piece.bytes);
    while (bytes.hasRemaining()) {
      fileEnd += channel.write(bytes, fileEnd);
    }
    return at;
  }

  /** Ends the writing: an output that waits for its readers keeps no file open. */
  void finish() throws IOException {
    if (channel != null) {
      channel.close();
    }
  }

  /** Where {@code piece} lies in memory, if it does; otherwise {@link #read} brings its bytes there. */
  static ByteBuffer inMemory(Piece piece) {
    return Memory.wrap(piece.block.address(), piece.bytes);
  }

  /**
   * Reads a piece that was moved to the file. {@code into} has room for it. Each call opens the file: an interrupt of one
   * task would close a channel for all.
   */
  void read(Piece piece, ByteBuffer into) throws IOException {
    try (FileChannel own = FileChannel.open(file.toPath(), StandardOpenOption.READ)) {
      long at = piece.offset;
      while (into.hasRemaining()) {
        int got = own.read(into, at);
        if (got < 0) {
          throw new EOFException(file + " ends at byte " + at + ", inside of a batch");
        }
        at += got;
      }
    }
    into.flip();
  }

  /** False: the output is gone. */
  synchronized boolean tryRetain() {
    if (references == 0) {
      return false;
    }
    references++;
    return true;
  }

  /** The last release gives memory and file back. */
  void release() {
    synchronized (this) {
      if (--references > 0) {
        return;
      }
    }
    for (List<Piece> some : pieces) {
      for (Piece piece : some) {
        if (piece.block != null) {
          memory.free(piece.block);
        }
      }
    }
    if (channel != null) {
      try {
        channel.close();
      } catch (IOException e) {
        throw new UncheckedIOException("cannot close " + file, e);
      } finally {
        file.delete();
      }
    }
  }
}
