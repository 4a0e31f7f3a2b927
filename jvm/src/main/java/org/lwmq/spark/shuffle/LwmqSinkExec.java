package org.lwmq.spark.shuffle;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.package$;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DecimalType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * The end of a generated stage below an {@link LwmqExchangeExec}. Values go from the variables of the stage to the
 * {@link PartitionEncoders} of the task; no UnsafeRow is made, and no row comes out. Where Spark runs the stage without
 * generated code, its rows come out as they are, and {@link ExchangeWriter} takes them. Driver.
 */
public final class LwmqSinkExec extends SparkPlan implements CodegenSupport {
  private final SparkPlan child;
  private final Partitioning partitioning;
  private CodegenSupport parent;

  /** Spark copies a plan through this constructor. */
  public LwmqSinkExec(SparkPlan child, Partitioning partitioning) {
    this.child = child;
    this.partitioning = partitioning;
  }

  /** Whether there can be one between {@code child} and an exchange to {@code partitioning}. */
  static boolean fits(SparkPlan child, Partitioning partitioning) {
    boolean isKnown = partitioning instanceof HashPartitioning || partitioning == SinglePartition$.MODULE$;
    return isKnown && child instanceof CodegenSupport stage && stage.supportCodegen()
        && CollectionConverters.asJava(child.output()).stream().allMatch(
            column -> StageRowSource.knows(CodeGenerator.javaType(column.dataType())));
  }

  @Override
  public String nodeName() {
    return "LwmqSink";
  }

  @Override
  public CodegenSupport parent() {
    return parent;
  }

  @Override
  public void parent_$eq(CodegenSupport parent) {
    this.parent = parent;
  }

  @Override
  public Seq<RDD<InternalRow>> inputRDDs() {
    return ((CodegenSupport) child).inputRDDs();
  }

  @Override
  public String doProduce(CodegenContext context) {
    return ((CodegenSupport) child).produce(context, this);
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode unused) {
    List<ExprCode> values = CollectionConverters.asJava(input);
    List<StageRowSource.Column> columns = new ArrayList<>();
    for (int i = 0; i < values.size(); i++) {
      String type = CodeGenerator.javaType(output().apply(i).dataType());
      boolean isDecimal = output().apply(i).dataType() instanceof DecimalType;
      columns.add(new StageRowSource.Column(type, isDecimal || !values.get(i).isNull().toString().equals("false")));
    }
    String rowClass = context.freshName("StageRow");
    context.addInnerClass(StageRowSource.of(rowClass, columns));
    String row = state(context, rowClass, "stageRow", "new " + rowClass + "()");
    String encoders = state(context, PartitionEncoders.class.getName(), "encoders", "null");

    StringBuilder code = new StringBuilder(evaluateVariables(input));
    String partition = "0";
    if (partitioning instanceof HashPartitioning hash) {
      Expression bound = BindReferences.bindReference(
          hash.partitionIdExpression(), package$.MODULE$.AttributeSeq(output()), false);
      context.INPUT_ROW_$eq(null);
      context.currentVars_$eq(input);
      ExprCode id = bound.genCode(context);
      code.append('\n').append(id.code());
      partition = id.value().toString();
    }
    for (int i = 0; i < values.size(); i++) {
      ExprCode value = values.get(i);
      String isNull = value.isNull().toString();
      if (output().apply(i).dataType() instanceof DecimalType decimal) { // what has overflown is null, as in an UnsafeRow
        isNull += " || !" + value.value() + ".changePrecision(" + decimal.precision() + ", " + decimal.scale() + ")";
      }
      String store = row + ".v" + i + " = " + value.value() + ";\n";
      code.append(columns.get(i).nullable()
          ? row + ".n" + i + " = " + isNull + ";\nif (!" + row + ".n" + i + ") " + store
          : '\n' + store);
    }
    code.append("if (").append(encoders).append(" == null) ").append(encoders).append(" = ")
        .append(PartitionEncoders.class.getName()).append(".current();\n");
    return code.append(encoders).append(".write(").append(partition).append(", ").append(row).append(");\n").toString();
  }

  /** A field of the stage's class. */
  private static String state(CodegenContext context, String type, String name, String value) {
    return context.addMutableState(
        type,
        name,
        new AbstractFunction1<String, String>() {
          @Override
          public String apply(String field) {
            return field + " = " + value + ";";
          }
        },
        true,
        true);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute();
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new LwmqSinkExec(newChildren.head(), partitioning);
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int i) {
    return i == 0 ? child : partitioning;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof LwmqSinkExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LwmqSinkExec sink && child.equals(sink.child) && partitioning.equals(sink.partitioning);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode() + partitioning.hashCode();
  }
}
