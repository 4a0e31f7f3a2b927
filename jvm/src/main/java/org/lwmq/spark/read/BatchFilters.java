package org.lwmq.spark.read;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.lwmq.core.Filter;
import org.lwmq.core.Filter.Comparison;
import org.lwmq.core.Filter.Kind;
import org.lwmq.spark.batch.StreamSchema;

/**
 * Those filters of a query by which batches can be passed over: comparisons of a column with a literal. Driver.
 *
 * @param predicates as Spark has them
 * @param filters what they mean for the bounds of a batch: at least as many rows match
 */
record BatchFilters(List<Predicate> predicates, List<Filter> filters) {
  static final BatchFilters NONE = new BatchFilters(List.of(), List.of());

  private static final Map<String, Comparison> COMPARISONS =
      Map.of(
          "=", Comparison.EQUAL, "<=>", Comparison.EQUAL, "<", Comparison.LESS, "<=", Comparison.LESS_OR_EQUAL, ">", Comparison.GREATER,
          ">=", Comparison.GREATER_OR_EQUAL, "IS_NULL", Comparison.IS_NULL, "IS_NOT_NULL", Comparison.IS_NOT_NULL);
  private static final Map<Comparison, Comparison> MIRRORED =
      Map.of(
          Comparison.EQUAL, Comparison.EQUAL, Comparison.LESS, Comparison.GREATER,
          Comparison.LESS_OR_EQUAL, Comparison.GREATER_OR_EQUAL, Comparison.GREATER, Comparison.LESS,
          Comparison.GREATER_OR_EQUAL, Comparison.LESS_OR_EQUAL);

  /** {@code table} has the types of the columns as Spark knows them, {@code stream} their names. */
  static BatchFilters of(Predicate[] predicates, StructType table, Schema stream) {
    List<Predicate> taken = new ArrayList<>();
    List<Filter> filters = new ArrayList<>();
    for (Predicate predicate : predicates) {
      List<Filter> found = of(predicate, table, stream);
      if (!found.isEmpty()) {
        taken.add(predicate);
        filters.addAll(found);
      }
    }
    return new BatchFilters(taken, List.copyOf(filters));
  }

  /** Empty: no bounds say anything about the predicate. */
  private static List<Filter> of(Predicate predicate, StructType table, Schema stream) {
    Expression[] children = predicate.children();
    if (predicate.name().equals("IN")) {
      return ofIn(children, table, stream);
    }
    Comparison comparison = COMPARISONS.get(predicate.name());
    if (comparison == null) {
      return List.of();
    }
    boolean isMirrored = children.length == 2 && children[0] instanceof Literal;
    String column = column(children[isMirrored ? 1 : 0], stream);
    if (column == null) {
      return List.of();
    }
    if (children.length == 1) {
      return List.of(Filter.ofNull(column, comparison));
    }
    return one(column, isMirrored ? MIRRORED.get(comparison) : comparison, children[isMirrored ? 0 : 1], table);
  }

  /** No value is less than the least of the list, nor greater than the greatest. */
  private static List<Filter> ofIn(Expression[] children, StructType table, Schema stream) {
    String column = column(children[0], stream);
    List<Filter> values = new ArrayList<>();
    for (Expression value : Arrays.asList(children).subList(1, children.length)) {
      if (value instanceof Literal<?> literal && literal.value() == null) {
        continue; // no row is equal to it
      }
      List<Filter> found = column == null ? List.of() : one(column, Comparison.EQUAL, value, table);
      if (found.isEmpty()) {
        return List.of();
      }
      values.addAll(found);
    }
    if (values.isEmpty()) {
      return List.of();
    }
    Filter least = values.stream().min(BatchFilters::compare).get();
    Filter greatest = values.stream().max(BatchFilters::compare).get();
    return List.of(
        new Filter(column, Comparison.GREATER_OR_EQUAL, least.kind(), least.bits()),
        new Filter(column, Comparison.LESS_OR_EQUAL, greatest.kind(), greatest.bits()));
  }

  private static int compare(Filter a, Filter b) {
    return switch (a.kind()) {
      case REAL -> Double.compare(Double.longBitsToDouble(a.bits()), Double.longBitsToDouble(b.bits()));
      case BYTES -> Long.compareUnsigned(a.bits(), b.bits());
      default -> Long.compare(a.bits(), b.bits());
    };
  }

  /** What the stream calls the column; null: the expression is no column that has bounds. */
  private static String column(Expression expression, Schema stream) {
    String bounds = StreamSchema.bounds(stream);
    if (bounds == null || !(expression instanceof NamedReference reference) || reference.fieldNames().length != 1) {
      return null;
    }
    return Arrays.stream(bounds.split(","))
        .filter(name -> StreamSchema.sameName().test(name, reference.fieldNames()[0]))
        .findFirst()
        .orElse(null);
  }

  /** Empty: the value is of a type whose bounds mean nothing, or of another type than the column. */
  private static List<Filter> one(String column, Comparison comparison, Expression value, StructType table) {
    if (!(value instanceof Literal<?> literal) || literal.value() == null) {
      return List.of();
    }
    DataType type = literal.dataType();
    boolean isColumns =
        Arrays.stream(table.fields())
            .anyMatch(field -> StreamSchema.sameName().test(field.name(), column) && field.dataType().equals(type));
    if (!isColumns) {
      return List.of();
    }
    Object of = literal.value();
    if (type.equals(DataTypes.DateType)) {
      return List.of(new Filter(column, comparison, Kind.DAYS, ((Number) of).longValue()));
    }
    if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      return List.of(new Filter(column, comparison, Kind.MICROSECONDS, ((Number) of).longValue()));
    }
    if (type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType)) {
      long bits = Double.doubleToLongBits(((Number) of).doubleValue());
      return List.of(new Filter(column, comparison, Kind.REAL, bits));
    }
    if (type.equals(DataTypes.StringType)) { // compares by bytes; others by their collations
      byte[] bytes = of instanceof UTF8String text ? text.getBytes() : of.toString().getBytes(StandardCharsets.UTF_8);
      return List.of(new Filter(column, comparison, Kind.BYTES, Filter.bits(bytes)));
    }
    if (type.equals(DataTypes.BinaryType)) {
      return List.of(new Filter(column, comparison, Kind.BYTES, Filter.bits((byte[]) of)));
    }
    boolean isInteger =
        List.of(DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType).contains(type);
    return isInteger ? List.of(new Filter(column, comparison, Kind.INTEGER, ((Number) of).longValue())) : List.of();
  }
}
