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
 * Compiles row appenders with the janino that Spark ships, and caches the newest of them. Thread-safe.
 *
 * <p>A schema of more than {@link #NODES_MAX} nodes gets an {@link InterpretedAppender}. From that size on it is no
 * slower: generated code takes seconds to compile and does not fit the processor's cache. A schema of some 2,000 nodes
 * would need more constants than a class may have.
 *
 * <p>There is a cache because compiling takes longer than writing the rows of a small task. It holds classes alone,
 * softly, by their source text. It belongs to the loader of this class, as the generated classes do. Spark's own cache
 * of generated classes would hand a class of one session to another session that has loaded our jar a second time.
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
