# liblwmq_jni.so (sees lwmq.h only) and lwmq-spark.jar (javac alone, against the jars of the pyspark wheel).
include(python)
find_package(Java 17 COMPONENTS Development)
if(NOT Java_FOUND)
  message(STATUS "lwmq: no JDK 17 or later, neither liblwmq_jni.so nor the jar is built")
  return()
endif()

# -- liblwmq_jni.so ---------------------------------------------------------------------------------------------
file(REAL_PATH "${Java_JAVAC_EXECUTABLE}" _javac)
cmake_path(GET _javac PARENT_PATH _jdk_bin)
cmake_path(GET _jdk_bin PARENT_PATH _jdk)
find_path(LWMQ_JNI_INCLUDE jni.h HINTS "${_jdk}/include" "$ENV{JAVA_HOME}/include")
file(GLOB _jni_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/jni/*.cc")
if(_jni_sources AND LWMQ_JNI_INCLUDE)
  add_library(lwmq_jni SHARED ${_jni_sources})
  target_include_directories(lwmq_jni PRIVATE "${LWMQ_JNI_INCLUDE}" "${LWMQ_JNI_INCLUDE}/linux"
                                              "${CMAKE_CURRENT_SOURCE_DIR}/src/jni")
  target_compile_options(lwmq_jni PRIVATE -fno-exceptions -fno-rtti)
  target_link_libraries(lwmq_jni PRIVATE lwmq lwmq_warnings)
  target_link_options(lwmq_jni PRIVATE -Wl,--gc-sections -static-libstdc++
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/lwmq_jni.map)
  set_target_properties(lwmq_jni PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN"
                                            LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/lwmq_jni.map")
  install(TARGETS lwmq_jni LIBRARY DESTINATION lwmq_spark/_lib)
elseif(NOT LWMQ_JNI_INCLUDE)
  message(STATUS "lwmq: jni.h not found, liblwmq_jni.so is not built")
endif()

# -- lwmq-spark.jar ---------------------------------------------------------------------------------------------
set(LWMQ_SPARK_JARS "" CACHE PATH "folder of Spark's jars; empty: of the pyspark that Python finds")
if(NOT LWMQ_SPARK_JARS AND Python3_EXECUTABLE)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import importlib.util as u, os; print(os.path.join(os.path.dirname(u.find_spec('pyspark').origin), 'jars'))"
    OUTPUT_VARIABLE _jars OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _failed)
  if(NOT _failed)
    set(LWMQ_SPARK_JARS "${_jars}")
  endif()
endif()
file(GLOB_RECURSE _java_sources CONFIGURE_DEPENDS "${LWMQ_ROOT}/jvm/src/main/java/*.java")
file(GLOB_RECURSE _java_resources CONFIGURE_DEPENDS "${LWMQ_ROOT}/jvm/src/main/resources/*")
if(NOT _java_sources OR NOT TARGET lwmq_jni)
  message(STATUS "lwmq: no Java sources or no liblwmq_jni.so, the jar is not built")
  return()
endif()
if(NOT IS_DIRECTORY "${LWMQ_SPARK_JARS}")
  message(STATUS "lwmq: pyspark not found (set LWMQ_SPARK_JARS), the jar is not built")
  return()
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(_platform linux-x86_64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(_platform linux-aarch64)
else()
  set(_platform "linux-${CMAKE_SYSTEM_PROCESSOR}")
endif()

set(_stage "${CMAKE_CURRENT_BINARY_DIR}/jar")
set(_classes "${CMAKE_CURRENT_BINARY_DIR}/classes")
# Classes of Spark as javac has to see them; see the comments there.
set(_stubs "${CMAKE_CURRENT_BINARY_DIR}/stubs")
file(GLOB_RECURSE _java_stubs CONFIGURE_DEPENDS "${LWMQ_ROOT}/jvm/src/stubs/java/*.java")
set(_sources_list "${CMAKE_CURRENT_BINARY_DIR}/java-sources.txt")
string(REPLACE ";" "\n" _lines "${_java_sources}")
file(GENERATE OUTPUT "${_sources_list}" CONTENT "${_lines}\n")

# Lints left out say nothing about our code: `path` and `classfile` complain about Spark's jars, `processing` about
# annotations nobody processes, `serial` would ask for version numbers in classes that live as long as one job.
add_custom_command(
  OUTPUT "${_classes}.stamp"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${_classes}" "${_stubs}"
  COMMAND "${Java_JAVAC_EXECUTABLE}" --release 17 -encoding UTF-8 -proc:none -cp "${LWMQ_SPARK_JARS}/*"
          -d "${_stubs}" ${_java_stubs}
  COMMAND "${Java_JAVAC_EXECUTABLE}" --release 17 -encoding UTF-8 -proc:none -g -parameters
          -Xlint:all,-path,-classfile,-processing,-serial -Werror
          -cp "${_stubs}:${LWMQ_SPARK_JARS}/*" -d "${_classes}" "@${_sources_list}"
  COMMAND "${CMAKE_COMMAND}" -E touch "${_classes}.stamp"
  DEPENDS ${_java_sources} ${_java_stubs} "${_sources_list}"
  COMMENT "javac: jvm/src/main/java"
  VERBATIM)

file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/manifest.txt"
     CONTENT "Implementation-Title: lwmq-spark\nImplementation-Version: ${PROJECT_VERSION}\n")
set(_copy_resources "")
if(_java_resources)
  set(_copy_resources COMMAND "${CMAKE_COMMAND}" -E copy_directory "${LWMQ_ROOT}/jvm/src/main/resources" "${_stage}")
endif()
add_custom_command(
  OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/lwmq-spark.jar"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${_stage}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${_stage}/org/lwmq/native/${_platform}"
  COMMAND "${CMAKE_COMMAND}" -E copy_directory "${_classes}" "${_stage}"
  ${_copy_resources}
  COMMAND "${CMAKE_COMMAND}" -E copy "$<TARGET_FILE:lwmq>" "$<TARGET_FILE:lwmq_jni>"
          "${_stage}/org/lwmq/native/${_platform}/"
  COMMAND "${CMAKE_STRIP}" --strip-debug "${_stage}/org/lwmq/native/${_platform}/liblwmq.so"
          "${_stage}/org/lwmq/native/${_platform}/liblwmq_jni.so"
  COMMAND "${Java_JAR_EXECUTABLE}" --create --no-compress --file "${CMAKE_CURRENT_BINARY_DIR}/lwmq-spark.jar"
          --manifest "${CMAKE_CURRENT_BINARY_DIR}/manifest.txt" -C "${_stage}" .
  DEPENDS "${_classes}.stamp" "${CMAKE_CURRENT_BINARY_DIR}/manifest.txt" ${_java_resources} lwmq lwmq_jni
  COMMENT "jar: lwmq-spark.jar"
  VERBATIM)
add_custom_target(jar ALL DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/lwmq-spark.jar")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lwmq-spark.jar" DESTINATION lwmq_spark/_jars)
