# Installs the libraries with their public headers, a CMake package
#   find_package(tracering COMPONENTS producer consumer)
# and one pkg-config file a library. Both are relocatable: they find the prefix
# from where they lie. Components: tracering_runtime (shared libraries),
# tracering_dev, and tracering_tools of tools/.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tracering")

# What static libraries ask of who links with a C compiler.
set(cxx_runtime "")
if(NOT BUILD_SHARED_LIBS)
  set(cxx_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
  list(FILTER cxx_runtime INCLUDE REGEX "c\\+\\+")
endif()

install(
  TARGETS tracering_common tracering_producer tracering_consumer
  EXPORT tracering-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          COMPONENT tracering_runtime
          NAMELINK_COMPONENT tracering_dev
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          COMPONENT tracering_dev
  FILE_SET HEADERS
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          COMPONENT tracering_dev)
install(
  EXPORT tracering-targets
  NAMESPACE tracering::
  DESTINATION "${package_dir}"
  COMPONENT tracering_dev)

set(package_is_shared OFF)
if(BUILD_SHARED_LIBS)
  set(package_is_shared ON)
endif()
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/tracering-config.cmake.in"
  "${PROJECT_BINARY_DIR}/package/tracering-config.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/package/tracering-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/package/tracering-config.cmake"
        "${PROJECT_BINARY_DIR}/package/tracering-config-version.cmake"
  DESTINATION "${package_dir}"
  COMPONENT tracering_dev)

# fmt and zlib are in no public header: a shared library brings them along,
# while who links a static one has to name them.
set(common_requires "absl_status absl_statusor absl_strings")
set(consumer_requires "tracering-common = ${PROJECT_VERSION}")
list(TRANSFORM cxx_runtime PREPEND " -l" OUTPUT_VARIABLE common_libs)
list(JOIN common_libs "" common_libs)
if(NOT BUILD_SHARED_LIBS)
  string(APPEND common_requires " fmt")
  if(TRACERING_WITH_ZLIB)
    string(APPEND consumer_requires " zlib")
  endif()
endif()
set(common_description "What both libraries stand on; link one of those")
set(producer_requires "tracering-common = ${PROJECT_VERSION}")
set(producer_description "Tracing from an instrumented program")
set(consumer_description "Recording what instrumented programs trace")
file(RELATIVE_PATH prefix_from_pkgconfig
     "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
foreach(room common producer consumer)
  set(pc_name "tracering-${room}")
  set(pc_library "tracering_${room}")
  set(pc_description "${${room}_description}")
  set(pc_requires "${${room}_requires}")
  set(pc_libs "${${room}_libs}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/tracering.pc.in"
                 "${PROJECT_BINARY_DIR}/package/${pc_name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/${pc_name}.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
          COMPONENT tracering_dev)
endforeach()
