package org.lwmq.spark.catalog;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * A table that was created a moment ago. Spark fills it in CREATE TABLE ... AS SELECT. For CREATE OR REPLACE it
 * overwrites the table, in which there is nothing yet. Driver.
 */
record NewTable(SupportsWrite table) implements SupportsWrite {
  @Override
  public String name() {
    return table.name();
  }

  @Override
  @SuppressWarnings("deprecation") // columns() by default comes from here
  public StructType schema() {
    return table.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return table.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new SupportsTruncate() {
      @Override
      public WriteBuilder truncate() {
        return this;
      }

      @Override
      public Write build() {
        return table.newWriteBuilder(info).build();
      }
    };
  }
}
