package org.lwmq.spark.shuffle;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.spark.storage.StorageUtils;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.Memory;

/**
 * The file of a map task whose batches the executor's memory cannot hold. In place of such a batch its stream has a
 * reference: where the batch lies in which file. The task's thread writes.
 *
 * <pre>
 *   reference   | 0: MARK, 4 bytes | 4: length of the path, 4 | 8: offset, 8 | 16: bytes, 8 | 24: path, UTF-8 |
 * </pre>
 *
 * An Arrow message begins with 0xffffffff, and so is no reference.
 */
final class SpillFile {
  private static final int MARK = 0x46455257; // "WREF"
  private static final int PATH = 24;
  private static final long ALIGNMENT = 64; // of the batches in the file, and so in a reader's memory

  private final File file;
  private final byte[] path;
  private FileChannel channel;
  private long end;

  SpillFile(File file) throws IOException {
    this.file = file;
    this.path = file.getPath().getBytes(StandardCharsets.UTF_8);
    this.channel = FileChannel.open(
        file.toPath(), StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE);
  }

  File file() {
    return file;
  }

  /** Bytes of a reference into this file. */
  long referenceBytes() {
    return PATH + path.length;
  }

  /** Appends the batch at {@code address}, and lays the reference to it at {@code reference}. */
  void append(long address, long bytes, long reference) {
    Platform.putInt(null, reference, MARK);
    Platform.putInt(null, reference + 4, path.length);
    Platform.putLong(null, reference + 8, end);
    Platform.putLong(null, reference + 16, bytes);
    Platform.copyMemory(path, Platform.BYTE_ARRAY_OFFSET, null, reference + PATH, path.length);
    ByteBuffer from = Memory.wrap(address, bytes);
    try {
      while (from.hasRemaining()) {
        end += channel.write(from, end);
      }
      end = (end + ALIGNMENT - 1) & -ALIGNMENT;
    } catch (IOException e) {
      throw new UncheckedIOException("the exchange's memory is full, and " + file + " cannot be written", e);
    }
  }

  /** Ends the writing. */
  void close() throws IOException {
    channel.close();
  }

  /** The same where nobody needs the file any more. */
  void closeQuietly() {
    try {
      channel.close();
    } catch (IOException e) {
      // what could not be written is not wanted
    }
  }

  /** Whether the {@code bytes} bytes at {@code address} are a reference. */
  static boolean isReference(long address, long bytes) {
    return bytes >= PATH && Platform.getInt(null, address) == MARK;
  }

  /** The batch that the reference at {@code address} names, mapped: it outlives the file's name, but not {@link Mapped#close}. */
  static Mapped map(long address, long bytes) throws IOException {
    byte[] path = new byte[Math.toIntExact(Math.min(Platform.getInt(null, address + 4), bytes - PATH))];
    Platform.copyMemory(null, address + PATH, path, Platform.BYTE_ARRAY_OFFSET, path.length);
    long at = Platform.getLong(null, address + 8);
    long size = Platform.getLong(null, address + 16);
    String name = new String(path, StandardCharsets.UTF_8);
    try (FileChannel channel = FileChannel.open(Path.of(name))) {
      if (at + size > channel.size()) {
        throw new EOFException(name + " ends at byte " + channel.size() + ", before the end of a batch at byte " + (at + size));
      }
      return new Mapped(channel.map(FileChannel.MapMode.READ_ONLY, at, size));
    }
  }

  /** Bytes of a file in memory, until {@link #close}. One thread. */
  static final class Mapped implements AutoCloseable {
    private final MappedByteBuffer buffer;

    private Mapped(MappedByteBuffer buffer) {
      this.buffer = buffer;
    }

    long address() {
      return Memory.address(buffer);
    }

    long bytes() {
      return buffer.capacity();
    }

    @Override
    public void close() {
      StorageUtils.dispose(buffer);
    }
  }
}
