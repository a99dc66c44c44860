# What `cpack -G DEB` makes of the installed components: libtracering0.1 (of
# shared libraries only), libtracering-dev and tracering, the program.
#
# Dependencies on other packages are found by dpkg-shlibdeps (of dpkg-dev, which
# needs `file`). Files go where they would with the prefix that was configured:
# /usr, to be a good citizen.
set(soversion "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")

set(CPACK_PACKAGE_NAME "tracering")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR "The tracering authors")
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "The tracering authors <nobody@localhost>")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)

set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The libraries are in no package yet when the program's dependencies are
# looked for.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "")
foreach(room common producer consumer)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
       "${PROJECT_BINARY_DIR}/src/${room}")
endforeach()

set(CPACK_COMPONENTS_ALL tracering_dev)
set(CPACK_DEBIAN_TRACERING_DEV_PACKAGE_NAME "libtracering-dev")
set(CPACK_DEBIAN_TRACERING_DEV_PACKAGE_SECTION "libdevel")
set(CPACK_COMPONENT_TRACERING_DEV_DESCRIPTION
    "C++17 and C headers of the producer and the consumer library, with a\n\
CMake package and pkg-config files.")
# Of what public headers include and, for static libraries, what they link.
set(CPACK_DEBIAN_TRACERING_DEV_PACKAGE_DEPENDS "libabsl-dev")

if(BUILD_SHARED_LIBS)
  list(APPEND CPACK_COMPONENTS_ALL tracering_runtime)
  set(CPACK_DEBIAN_TRACERING_RUNTIME_PACKAGE_NAME "libtracering${soversion}")
  set(CPACK_DEBIAN_TRACERING_RUNTIME_PACKAGE_SECTION "libs")
  set(CPACK_COMPONENT_TRACERING_RUNTIME_DESCRIPTION
      "The producer library, for programs that are traced, and the consumer\n\
library, for those that record them.")
  # Tells whoever is packaged against the libraries what to depend on.
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_COMPONENT_TRACERING_DEV_DEPENDS tracering_runtime)
  set(CPACK_COMPONENT_TRACERING_TOOLS_DEPENDS tracering_runtime)
else()
  string(APPEND CPACK_DEBIAN_TRACERING_DEV_PACKAGE_DEPENDS ", libfmt-dev")
  if(TRACERING_WITH_ZLIB)
    string(APPEND CPACK_DEBIAN_TRACERING_DEV_PACKAGE_DEPENDS ", zlib1g-dev")
  endif()
endif()

if(TRACERING_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tracering_tools)
  set(CPACK_DEBIAN_TRACERING_TOOLS_PACKAGE_NAME "tracering")
  set(CPACK_DEBIAN_TRACERING_TOOLS_PACKAGE_SECTION "devel")
  set(CPACK_COMPONENT_TRACERING_TOOLS_DESCRIPTION
      "The program tracering: records programs that are traced, prints their\n\
traces, shows what is being traced, and saves what a dead program left.")
endif()

foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  install(
    FILES "${PROJECT_SOURCE_DIR}/LICENSE"
    DESTINATION
      "${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}"
    RENAME copyright
    COMPONENT ${component}
    EXCLUDE_FROM_ALL)
endforeach()

include(CPack)
