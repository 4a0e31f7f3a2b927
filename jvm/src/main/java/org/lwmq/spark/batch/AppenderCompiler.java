package org.lwmq.spark.batch;

import java.lang.ref.SoftReference;
import java.lang.reflect.Constructor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.codehaus.commons.compiler.CompileException;
import org.codehaus.janino.SimpleCompiler;

/**
 * Compiles row appenders with the janino that Spark ships, and remembers the newest of them. A schema of more than
 * {@link #NODES_MAX} nodes gets an {@link InterpretedAppender}, which is no slower from there on: code of that size
 * takes seconds to compile and does not stay in the cache. Some 2,000 nodes are more than a class may have constants
 * for.
 *
 * <p>What is remembered is code alone, keyed by its own source text, and soft: compiling takes longer than writing a
 * small task's rows. It lives with this class's loader, as the generated classes do; Spark's own cache of generated
 * classes would hand one session's class to another session that has loaded our jar a second time. Thread-safe.
 */
final class AppenderCompiler {
  static final int NODES_MAX = 400;

  private static final int CLASSES_MAX = 64;

  private static final Map<String, SoftReference<Class<?>>> COMPILED = new LinkedHashMap<>(16, 0.75f, true) {
    @Override
    protected boolean removeEldestEntry(Map.Entry<String, SoftReference<Class<?>>> eldest) {
      return size() > CLASSES_MAX;
    }
  };

  private AppenderCompiler() {}

  /** Makes appenders for {@code nodes}; the first one compiles their class. The supplier is for one thread. */
  static Supplier<RowAppender> of(List<BatchNode> nodes) {
    if (nodes.size() > NODES_MAX) {
      return () -> new InterpretedAppender(nodes);
    }
    return new Supplier<>() {
      private Constructor<?> constructor;

      @Override
      public RowAppender get() {
        try {
          if (constructor == null) {
            constructor = compiled(AppenderSource.of(nodes)).getDeclaredConstructor();
          }
          return (RowAppender) constructor.newInstance();
        } catch (ReflectiveOperationException | CompileException e) {
          throw new IllegalStateException("no row appender for " + nodes, e);
        }
      }
    };
  }

  private static Class<?> compiled(String source) throws CompileException, ClassNotFoundException {
    synchronized (COMPILED) {
      SoftReference<Class<?>> known = COMPILED.get(source);
      Class<?> type = known == null ? null : known.get();
      if (type == null) {
        SimpleCompiler compiler = new SimpleCompiler();
        compiler.setParentClassLoader(RowAppender.class.getClassLoader());
        compiler.cook(source);
        type = compiler.getClassLoader().loadClass(AppenderSource.CLASS_NAME);
        COMPILED.put(source, new SoftReference<>(type));
      }
      return type;
    }
  }
}
