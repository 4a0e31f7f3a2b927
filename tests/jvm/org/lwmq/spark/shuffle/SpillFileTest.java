package org.lwmq.spark.shuffle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.spark.unsafe.Platform;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SpillFileTest {
  @TempDir Path folder;

  private static NativeMemory batch(int bytes, int number) {
    NativeMemory batch = new NativeMemory(bytes);
    Platform.setMemory(null, batch.address(), bytes, (byte) number);
    Platform.putInt(null, batch.address(), -1); // as every Arrow message begins
    return batch;
  }

  // rows: P30
  @Test
  void batchesComeBackByTheirReferences() throws IOException {
    SpillFile file = new SpillFile(folder.resolve("spilled").toFile());
    NativeMemory[] references = new NativeMemory[20];
    for (int i = 0; i < references.length; i++) {
      references[i] = new NativeMemory(file.referenceBytes());
      try (NativeMemory batch = batch(100 + 1000 * i, i)) {
        assertFalse(SpillFile.isReference(batch.address(), batch.bytes()));
        file.append(batch.address(), batch.bytes(), references[i].address());
      }
    }
    file.close();
    for (int i = references.length - 1; i >= 0; i--) {
      assertTrue(SpillFile.isReference(references[i].address(), references[i].bytes()));
      try (SpillFile.Mapped batch = SpillFile.map(references[i].address(), references[i].bytes())) {
        assertEquals(100 + 1000L * i, batch.bytes());
        assertEquals(0, batch.address() % 64);
        assertEquals(-1, Platform.getInt(null, batch.address()));
        assertEquals(i, Platform.getByte(null, batch.address() + batch.bytes() - 1));
      }
      references[i].close();
    }
  }

  @Test
  void aFileThatIsShorterOrGoneIsAnError() throws IOException {
    File path = folder.resolve("spilled").toFile();
    SpillFile file = new SpillFile(path);
    try (NativeMemory batch = batch(1000, 7); NativeMemory reference = new NativeMemory(file.referenceBytes())) {
      file.append(batch.address(), batch.bytes(), reference.address());
      file.close();
      try (FileChannel cut = FileChannel.open(path.toPath(), StandardOpenOption.WRITE)) {
        cut.truncate(999);
      }
      assertThrows(EOFException.class, () -> SpillFile.map(reference.address(), reference.bytes()));
      ExchangeStreams.delete(path);
      assertThrows(NoSuchFileException.class, () -> SpillFile.map(reference.address(), reference.bytes()));
    }
  }
}
