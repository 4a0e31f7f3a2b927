package org.lwmq.arrow;

import java.util.List;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Which widths and children the types of Arrow have. A schema comes from a peer, and says how many bytes each value
 * takes: what is not in the format would have us look where no buffer was checked.
 */
final class FieldShapes {
  private static final int BYTE_WIDTH_MAX = 1 << 28;

  private FieldShapes() {}

  /** CORRUPT names the field if the format does not have its type, or not with these children. */
  static void check(Field field) {
    if (field.getDictionary() != null) {
      require(isInteger(field.getDictionary().getIndexType().getBitWidth()), field);
    }
    require(isKnown(field.getType()) && hasItsChildren(field), field);
  }

  private static boolean isKnown(ArrowType type) {
    return switch (type.getTypeID()) {
      case Int -> isInteger(((ArrowType.Int) type).getBitWidth());
      case Decimal -> {
        int bits = ((ArrowType.Decimal) type).getBitWidth();
        yield bits == 32 || bits == 64 || bits == 128 || bits == 256;
      }
      case Time -> {
        ArrowType.Time time = (ArrowType.Time) type;
        boolean coarse = time.getUnit() == TimeUnit.SECOND || time.getUnit() == TimeUnit.MILLISECOND;
        yield time.getBitWidth() == (coarse ? 32 : 64);
      }
      case FixedSizeBinary -> isWidth(((ArrowType.FixedSizeBinary) type).getByteWidth());
      case FixedSizeList -> isWidth(((ArrowType.FixedSizeList) type).getListSize());
      default -> true;
    };
  }

  private static boolean hasItsChildren(Field field) {
    List<Field> children = field.getChildren();
    return switch (field.getType().getTypeID()) {
      case List, LargeList, FixedSizeList, ListView, LargeListView -> children.size() == 1;
      case Map ->
          children.size() == 1
              && children.get(0).getType() instanceof ArrowType.Struct
              && children.get(0).getChildren().size() == 2;
      case RunEndEncoded ->
          children.size() == 2
              && children.get(0).getType() instanceof ArrowType.Int ends
              && ends.getBitWidth() >= 16
              && ends.getIsSigned();
      case Struct, Union -> true;
      default -> children.isEmpty();
    };
  }

  private static boolean isInteger(int bits) {
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
  }

  private static boolean isWidth(int width) {
    return width >= 0 && width <= BYTE_WIDTH_MAX;
  }

  private static void require(boolean holds, Field field) {
    if (!holds) {
      throw new LwmqException(
          Status.CORRUPT, "field " + field.getName() + " has a type that Arrow does not have: " + field);
    }
  }
}
