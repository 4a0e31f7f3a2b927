# The classes of the tests that are written in Java, under the target `java_tests`: those of tests/jvm in
# java-tests/, the Spark plugin of tests/spark in spark-tests/.
if(NOT TARGET jar OR NOT TARGET native_tests)
  return()
endif()
add_custom_target(java_tests)

# Compiles `sources` against `class_path` into the folder `name` of the build.
function(lwmq_test_classes name class_path sources)
  set(_folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  add_custom_command(
    OUTPUT "${_folder}.stamp"
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${_folder}"
    COMMAND "${Java_JAVAC_EXECUTABLE}" --release 17 -encoding UTF-8 -proc:none
            -Xlint:all,-path,-classfile,-processing -Werror -cp "${class_path}" -d "${_folder}" ${sources}
    COMMAND "${CMAKE_COMMAND}" -E touch "${_folder}.stamp"
    DEPENDS jar ${sources}
    COMMENT "javac: ${name}"
    VERBATIM)
  add_custom_target(${name} DEPENDS "${_folder}.stamp")
  add_dependencies(java_tests ${name})
endfunction()

file(GLOB_RECURSE _sources CONFIGURE_DEPENDS "${LWMQ_ROOT}/tests/spark/*.java")
lwmq_test_classes(spark-tests "${LWMQ_SPARK_JARS}/*" "${_sources}")

set(LWMQ_JUNIT_JARS "/usr/share/java" CACHE PATH "folder of JUnit's jars, as Debian's junit5 installs them")
if(EXISTS "${LWMQ_JUNIT_JARS}/junit-jupiter-api.jar")
  file(GLOB_RECURSE _sources CONFIGURE_DEPENDS "${LWMQ_ROOT}/tests/jvm/*.java")
  set(_class_path "${CMAKE_CURRENT_BINARY_DIR}/lwmq-spark.jar:${LWMQ_SPARK_JARS}/*")
  foreach(jar junit-jupiter-api junit-jupiter-params junit-platform-commons opentest4j apiguardian-api)
    string(APPEND _class_path ":${LWMQ_JUNIT_JARS}/${jar}.jar")
  endforeach()
  lwmq_test_classes(java-tests "${_class_path}" "${_sources}")
else()
  message(STATUS "lwmq: JUnit not found in ${LWMQ_JUNIT_JARS}, the Java tests are not built")
endif()

# The class archive of the JVMs of the tests. It is recorded with what `make build` has placed into lwmq_spark/.
file(GLOB _spark_core "${LWMQ_SPARK_JARS}/spark-core_*.jar")
add_custom_command(
  OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/spark.jsa"
  COMMAND "${Python3_EXECUTABLE}" -m tests.class_archive
  DEPENDS "${LWMQ_ROOT}/tests/class_archive.py" ${_spark_core}
  WORKING_DIRECTORY "${LWMQ_ROOT}"
  COMMENT "recording the classes of Spark"
  VERBATIM)
add_custom_target(spark-classes DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/spark.jsa")
add_dependencies(java_tests spark-classes)
