package org.lwmq.spark.shuffle;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.BinaryView;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.TimestampNanosVal;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * One row as the variables of a generated stage hold it: read once, at once, and by position. {@link StageRowSource}
 * writes the subclass, which has a field for each column and the getters that its types need. Public because generated
 * classes live in a loader of their own.
 */
public abstract class StageRow extends InternalRow {
  private static UnsupportedOperationException none(String what) {
    return new UnsupportedOperationException("a row of a generated stage has no " + what);
  }

  @Override
  public void setNullAt(int i) {
    throw none("places to write to");
  }

  @Override
  public void update(int i, Object value) {
    throw none("places to write to");
  }

  @Override
  public InternalRow copy() {
    throw none("copy");
  }

  @Override
  public boolean getBoolean(int i) {
    throw none("boolean " + i);
  }

  @Override
  public byte getByte(int i) {
    throw none("byte " + i);
  }

  @Override
  public short getShort(int i) {
    throw none("short " + i);
  }

  @Override
  public int getInt(int i) {
    throw none("int " + i);
  }

  @Override
  public long getLong(int i) {
    throw none("long " + i);
  }

  @Override
  public float getFloat(int i) {
    throw none("float " + i);
  }

  @Override
  public double getDouble(int i) {
    throw none("double " + i);
  }

  @Override
  public Decimal getDecimal(int i, int precision, int scale) {
    throw none("decimal " + i);
  }

  @Override
  public UTF8String getUTF8String(int i) {
    throw none("string " + i);
  }

  @Override
  public byte[] getBinary(int i) {
    throw none("binary " + i);
  }

  @Override
  public BinaryView getBinaryView(int i) {
    throw none("binary view " + i);
  }

  @Override
  public CalendarInterval getInterval(int i) {
    throw none("interval " + i);
  }

  @Override
  public TimestampNanosVal getTimestampNTZNanos(int i) {
    throw none("timestamp " + i);
  }

  @Override
  public TimestampNanosVal getTimestampLTZNanos(int i) {
    throw none("timestamp " + i);
  }

  @Override
  public VariantVal getVariant(int i) {
    throw none("variant " + i);
  }

  @Override
  public InternalRow getStruct(int i, int fields) {
    throw none("struct " + i);
  }

  @Override
  public ArrayData getArray(int i) {
    throw none("array " + i);
  }

  @Override
  public MapData getMap(int i) {
    throw none("map " + i);
  }

  @Override
  public Object get(int i, DataType type) {
    throw none("value of type " + type.sql());
  }
}
