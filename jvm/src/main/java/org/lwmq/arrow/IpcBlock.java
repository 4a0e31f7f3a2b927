package org.lwmq.arrow;

import com.google.flatbuffers.Table;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.flatbuf.DictionaryBatch;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Memory;
import org.lwmq.core.Status;

/**
 * One block of a stream, taken apart: where each column's buffers lie. Copies no body.
 *
 * <p>A block is one encapsulated record batch message, or a small IPC stream: schema, dictionaries, one record
 * batch. A peer may write to it while we read: so metadata is copied before it is looked at, and every buffer is
 * checked once to lie inside the block. What lies in the buffers is checked when it is loaded. Whatever cannot be
 * right is CORRUPT. One thread.
 */
public final class IpcBlock {
  private static final int PREFIX_BYTES = 8;
  /** Far more than any schema needs; a length beyond is not worth an allocation. */
  private static final int METADATA_BYTES_MAX = 64 << 20;

  private final long end;
  private long at;

  // Of the message last read.
  private Message message;
  private long body;
  private long bodyBytes;

  private IpcBlock(long address, long bytes) {
    this.at = address;
    this.end = address + bytes;
  }

  /** What a block holds: as many columns as were asked for, in that order, each of {@code rows} rows. */
  public record Columns(int rows, ArrowColumn[] columns) {}

  /**
   * The columns {@code wanted} (places among the fields of {@code schema}) of the record batch in the block.
   *
   * @param isStream whether the block is a whole IPC stream
   */
  public static Columns read(long address, long bytes, boolean isStream, Schema schema, int[] wanted) {
    IpcBlock block = new IpcBlock(address, bytes);
    try {
      return isStream ? block.readStream(schema, wanted) : block.readMessage(schema.getFields(), wanted, Map.of());
    } catch (LwmqException e) {
      throw e;
    } catch (RuntimeException e) {
      // Flatbuffers reads through a ByteBuffer: an offset that points elsewhere ends here, not in a crash.
      throw new LwmqException(Status.CORRUPT, "the metadata of an Arrow message points outside of it: " + e);
    }
  }

  private Columns readStream(Schema declared, int[] wanted) {
    next();
    Schema schema = ArrowSchemas.of(message);
    if (!sameTypes(declared.getFields(), schema.getFields())) {
      throw new LwmqException(Status.SCHEMA, "a batch has schema " + schema + ", but the stream's is " + declared);
    }
    Map<Long, Field> dictionaryFields = new HashMap<>();
    schema.getFields().forEach(field -> collectDictionaries(field, dictionaryFields));
    Map<Long, ArrowColumn> dictionaries = new HashMap<>();
    while (true) {
      next();
      if (message.headerType() != MessageHeader.DictionaryBatch) {
        return readBatch(header(new RecordBatch()), schema.getFields(), wanted, dictionaries);
      }
      DictionaryBatch batch = header(new DictionaryBatch());
      Field field = dictionaryFields.get(batch.id());
      if (field == null || batch.isDelta() || batch.data() == null) {
        throw new LwmqException(Status.CORRUPT, "a dictionary batch that belongs to no field, or a delta");
      }
      Field values = new Field(field.getName(), withoutDictionary(field), field.getChildren());
      int[] only = {0};
      dictionaries.put(
          batch.id(), readBatch(batch.data(), List.of(values), only, dictionaries).columns()[0]);
    }
  }

  private Columns readMessage(List<Field> fields, int[] wanted, Map<Long, ArrowColumn> dictionaries) {
    next();
    return readBatch(header(new RecordBatch()), fields, wanted, dictionaries);
  }

  private Columns readBatch(RecordBatch batch, List<Field> fields, int[] wanted, Map<Long, ArrowColumn> known) {
    if (message.headerType() == MessageHeader.Schema) {
      throw new LwmqException(Status.CORRUPT, "an Arrow message is a schema where a record batch was expected");
    }
    if (batch.compression() != null) {
      throw new LwmqException(
          Status.UNSUPPORTED, "the body of a batch is compressed; write it without compression: it is not copied here");
    }
    return new ColumnLoader(batch, body, bodyBytes, known).load(fields, wanted);
  }

  /** Moves to the next message of the block and checks its extent. */
  private void next() {
    long room = end - at - PREFIX_BYTES;
    if (room < 0) {
      throw new LwmqException(Status.CORRUPT, "a block ends before its record batch");
    }
    ByteBuffer prefix = ByteBuffer.wrap(Memory.copy(at, PREFIX_BYTES)).order(ByteOrder.LITTLE_ENDIAN);
    int metadataBytes = prefix.getInt(4);
    if (prefix.getInt(0) != -1 || metadataBytes <= 0 || metadataBytes > Math.min(room, METADATA_BYTES_MAX)) {
      throw new LwmqException(
          Status.CORRUPT, "a message says that its metadata has " + metadataBytes + " bytes, in a block of " + room);
    }
    byte[] copy = Memory.copy(at + PREFIX_BYTES, metadataBytes);
    message = message(ByteBuffer.wrap(copy).order(ByteOrder.LITTLE_ENDIAN));
    body = at + PREFIX_BYTES + metadataBytes;
    bodyBytes = message.bodyLength();
    if (bodyBytes < 0 || bodyBytes > end - body) {
      throw new LwmqException(
          Status.CORRUPT, "a message says that its body has " + bodyBytes + " bytes, where " + (end - body) + " lie");
    }
    at = body + bodyBytes;
  }

  static Message message(ByteBuffer metadata) {
    if (metadata.remaining() < 8) {
      throw new LwmqException(Status.CORRUPT, "an Arrow message of " + metadata.remaining() + " bytes");
    }
    try {
      return Message.getRootAsMessage(metadata);
    } catch (RuntimeException e) {
      throw new LwmqException(Status.CORRUPT, "an Arrow message whose root lies outside of it: " + e);
    }
  }

  private <T extends Table> T header(T table) {
    @SuppressWarnings("unchecked")
    T header = (T) message.header(table);
    if (header == null || (table instanceof RecordBatch && message.headerType() != MessageHeader.RecordBatch)) {
      throw new LwmqException(Status.CORRUPT, "an Arrow message without a record batch where one was expected");
    }
    return header;
  }

  private static boolean sameTypes(List<Field> a, List<Field> b) {
    boolean same = a.size() == b.size();
    for (int i = 0; same && i < a.size(); i++) {
      same =
          a.get(i).getType().equals(b.get(i).getType())
              && (a.get(i).getDictionary() == null) == (b.get(i).getDictionary() == null)
              && sameTypes(a.get(i).getChildren(), b.get(i).getChildren());
    }
    return same;
  }

  private static void collectDictionaries(Field field, Map<Long, Field> into) {
    if (field.getDictionary() != null) {
      into.put(field.getDictionary().getId(), field);
    }
    field.getChildren().forEach(child -> collectDictionaries(child, into));
  }

  private static FieldType withoutDictionary(Field field) {
    return new FieldType(
        field.isNullable(), field.getType(), null, field.getMetadata());
  }
}
