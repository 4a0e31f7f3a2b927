package org.lwmq.spark.catalog;

import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.Status;
import org.lwmq.spark.report.Failures;
import org.lwmq.spark.source.LwmqProvider;

/**
 * Streams as tables of SQL: {@code SELECT * FROM lwmq.here.prices}. Spark makes one for each session whose {@code
 * spark.sql.catalog.lwmq} names this class, as that of {@code lwmq_spark.session()} does. Driver.
 *
 * <p>A name is an address, and {@code ipc://} is left out of it: {@code lwmq.here.prices} is the stream at {@code
 * ipc://prices}, and {@code lwmq.`tcp://host:7000/prices`} the one at {@code tcp://host:7000/prices}. The one namespace
 * is {@code here}. It lists the streams that processes of this host serve, and may be left out.
 *
 * <p>A stream is a table from the moment at which somebody has declared its columns. The tables are those of {@link
 * LwmqProvider}, so reads and writes mean what they mean in {@code format("lwmq")}. The catalog itself stores nothing.
 */
public final class LwmqCatalog implements TableCatalog, FunctionCatalog, SupportsNamespaces {
  private String name;

  @Override
  public void initialize(String given, CaseInsensitiveStringMap options) {
    name = given;
    options.keySet().stream().findFirst().ifPresent(
        option -> {
          throw Failures.spark(Status.INVALID, "spark.sql.catalog." + given + "." + option
              + ": the catalog has no options; the defaults of all reads and writes are spark.datasource.lwmq.*");
        });
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String[] defaultNamespace() {
    return StreamNames.HERE.clone();
  }

  /** The declared streams of this host. */
  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    if (!StreamNames.isNamespace(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return Failures.call(StreamNames::here);
  }

  @Override
  public boolean tableExists(Identifier table) {
    return Failures.call(() -> FoundStream.at(table, FoundStream.ANSWER_MS).isPresent());
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    Optional<Table> found = Failures.call(() -> FoundStream.at(table, FoundStream.ANSWER_MS).map(FoundStream::table));
    return found.orElseThrow(() -> new NoSuchTableException(table));
  }

  /** Declares a stream. If nobody serves the address, this driver does from now on. */
  @Override
  public Table createTable(Identifier table, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!StreamNames.isNamespace(table.namespace())) {
      throw new NoSuchNamespaceException(table.namespace());
    }
    if (tableExists(table)) {
      throw new TableAlreadyExistsException(table);
    }
    return Failures.call(() -> new Declaration(table, info).declare());
  }

  /** Closes a stream that this driver serves. UNSUPPORTED: another process does. */
  @Override
  public boolean dropTable(Identifier table) {
    return Failures.call(
        () -> {
          Optional<FoundStream> found = FoundStream.at(table, FoundStream.ANSWER_MS);
          found.ifPresent(FoundStream::close);
          return found.isPresent();
        });
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw refused("ALTER TABLE", "a stream stays as its first producer has declared it");
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw refused("ALTER TABLE ... RENAME", "the name of a stream is its address");
  }

  /** {@link BucketFunction}. */
  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    loadNamespaceMetadata(namespace);
    return new Identifier[] {Identifier.of(namespace, BucketFunction.NAME)};
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    if (!StreamNames.isNamespace(function.namespace()) || !function.name().equalsIgnoreCase(BucketFunction.NAME)) {
      throw new NoSuchFunctionException(function);
    }
    return new BucketFunction();
  }

  @Override
  public String[][] listNamespaces() {
    return new String[][] {StreamNames.HERE.clone()};
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    loadNamespaceMetadata(namespace);
    return namespace.length == 0 ? listNamespaces() : new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (!StreamNames.isNamespace(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return new TreeMap<>(Map.of(SupportsNamespaces.PROP_COMMENT, "the streams that processes of this host serve"));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw refused("CREATE NAMESPACE", "streams have one namespace, here");
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw refused("ALTER NAMESPACE", "the namespace of streams is not stored anywhere");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw refused("DROP NAMESPACE", "streams have one namespace, here, which stays");
  }

  private RuntimeException refused(String statement, String why) {
    return Failures.spark(Status.UNSUPPORTED, statement + " is not possible in the catalog " + name + ": " + why);
  }
}
