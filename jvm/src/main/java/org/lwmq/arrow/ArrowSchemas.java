package org.lwmq.arrow;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.flatbuf.Decimal;
import org.apache.arrow.flatbuf.Int;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.Type;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/** Schemas in Arrow IPC messages, and out of them. What cannot be right is CORRUPT, what Arrow Java cannot say is SCHEMA. */
public final class ArrowSchemas {
  private static final int CONTINUATION = -1;

  private ArrowSchemas() {}

  /** An Arrow IPC stream that holds only the schema message. */
  public static byte[] bytes(Schema schema) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try {
      MessageSerializer.serialize(new WriteChannel(Channels.newChannel(out)), schema);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return out.toByteArray();
  }

  /** The schema of an IPC stream that holds only its schema message. */
  public static Schema parse(byte[] stream) {
    ByteBuffer bytes = ByteBuffer.wrap(stream).order(ByteOrder.LITTLE_ENDIAN);
    if (bytes.remaining() < 8
        || bytes.getInt(0) != CONTINUATION
        || bytes.getInt(4) < 0
        || bytes.getInt(4) > stream.length - 8) {
      throw new LwmqException(Status.CORRUPT, "a schema of " + stream.length + " bytes is no Arrow IPC message");
    }
    bytes.position(8).limit(8 + bytes.getInt(4));
    return of(IpcBlock.message(bytes.slice().order(ByteOrder.LITTLE_ENDIAN)));
  }

  /** The schema in a schema message. */
  static Schema of(Message message) {
    org.apache.arrow.flatbuf.Schema schema = new org.apache.arrow.flatbuf.Schema();
    try {
      if (message.headerType() != MessageHeader.Schema || message.header(schema) == null) {
        throw new LwmqException(Status.CORRUPT, "a schema was expected, but the Arrow message is of another kind");
      }
      List<Field> fields = new ArrayList<>();
      for (int i = 0; i < schema.fieldsLength(); i++) {
        fields.add(field(schema.fields(i)));
      }
      Map<String, String> metadata = new LinkedHashMap<>();
      for (int i = 0; i < schema.customMetadataLength(); i++) {
        KeyValue entry = schema.customMetadata(i);
        metadata.put(entry.key(), entry.value());
      }
      return new Schema(fields, metadata);
    } catch (LwmqException e) {
      throw e;
    } catch (RuntimeException | StackOverflowError e) { // flatbuffers reads where it is told to, and ends here
      throw new LwmqException(Status.CORRUPT, "the schema in an Arrow message is malformed: " + e);
    }
  }

  /**
   * As Arrow Java's own conversion, but for two things: decimals of 32 and 64 bits, which that refuses, and types of
   * extensions, which here are what they are stored as, whoever registers them.
   */
  private static Field field(org.apache.arrow.flatbuf.Field field) {
    Map<String, String> metadata = new LinkedHashMap<>();
    for (int i = 0; i < field.customMetadataLength(); i++) {
      KeyValue entry = field.customMetadata(i);
      metadata.put(entry.key(), entry.value());
    }
    String name = field.name() == null ? "" : field.name();
    List<Field> children = new ArrayList<>();
    for (int i = 0; i < field.childrenLength(); i++) {
      children.add(field(field.children(i)));
    }
    FieldType type = new FieldType(field.nullable(), type(field), dictionary(field.dictionary()), metadata);
    Field converted = new Field(name, type, children);
    FieldShapes.check(converted);
    return converted;
  }

  private static ArrowType type(org.apache.arrow.flatbuf.Field field) {
    if (field.typeType() == Type.Decimal) {
      Decimal decimal = (Decimal) field.type(new Decimal());
      return new ArrowType.Decimal(decimal.precision(), decimal.scale(), decimal.bitWidth());
    }
    try {
      return ArrowType.getTypeForField(field);
    } catch (IllegalArgumentException | UnsupportedOperationException e) { // of a later version of the format
      throw new LwmqException(
          Status.SCHEMA, "field " + field.name() + " has a type that Arrow Java cannot read: " + e.getMessage());
    }
  }

  private static DictionaryEncoding dictionary(org.apache.arrow.flatbuf.DictionaryEncoding encoding) {
    if (encoding == null) {
      return null;
    }
    Int index = encoding.indexType();
    return new DictionaryEncoding(
        encoding.id(), encoding.isOrdered(), index == null ? null : new ArrowType.Int(index.bitWidth(), index.isSigned()));
  }
}
