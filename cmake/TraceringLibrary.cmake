# Target helpers that every room shares: warnings, the library trio, and the
# hooked twins that the race tests link.

# C++17, or C11: programs in C are there to show and try the C API.
function(tracering_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_17)
  set_target_properties(
    ${target} PROPERTIES CXX_EXTENSIONS OFF C_STANDARD 11
                         C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(
    ${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow
                      $<$<BOOL:${TRACERING_WERROR}>:-Werror>)
endfunction()

# What code in a library is compiled with beyond that. Our signal handler may
# run on a stack with little left: the first call of a function through the
# linkage table takes as much as the handler itself.
#   tracering_library_options(<target> <visibility>)
# With `hidden` it shows what is declared with TRACERING_EXPORT, with `default`
# all that is ours.
function(tracering_library_options target visibility)
  tracering_compile_options(${target})
  target_compile_options(${target} PRIVATE -fno-plt)
  set_target_properties(
    ${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                         CXX_VISIBILITY_PRESET ${visibility}
                         VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# tracering_library(<room> [SHOWS_ALL] HEADERS ... SOURCES ... [LINK ...]
#                   [LINK_PRIVATE ...] [LINK_ROOMS ...])
#
# Defines tracering_<room> (alias tracering::<room>), whose public HEADERS,
# named as users include them, are installed with it and checked to compile
# alone. SHOWS_ALL: other rooms use it as they like.
# Where tests are built it also defines tracering_<room>_hooked: the same
# sources, compiled with the SharedWord hook, for tests that step through
# shared-memory accesses.
function(tracering_library room)
  cmake_parse_arguments(
    arg "SHOWS_ALL" "" "HEADERS;SOURCES;LINK;LINK_PRIVATE;LINK_ROOMS" ${ARGN})
  set(visibility hidden)
  if(arg_SHOWS_ALL)
    set(visibility default)
  endif()
  set(variants "")
  if(TRACERING_BUILD_TESTS)
    set(variants "_hooked")
  endif()
  foreach(variant "" ${variants})
    set(target tracering_${room}${variant})
    if(variant STREQUAL "_hooked")
      # Not in larger units where the explorer is built: it and its mutants put
      # other files in the place of single ones.
      add_library(${target} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
      target_compile_definitions(${target} PUBLIC TRACERING_SHARED_WORD_HOOK=1)
      target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include)
      # What is stepped through need not be fast, and compiles in less time.
      target_compile_options(${target}
                             PRIVATE $<$<NOT:$<CONFIG:None>>:-O1> -g1)
    else()
      add_library(${target} ${arg_SOURCES})
      add_library(tracering::${room} ALIAS ${target})
      set_target_properties(
        ${target}
        PROPERTIES EXPORT_NAME ${room}
                   VERSION ${PROJECT_VERSION}
                   SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
      list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/"
           OUTPUT_VARIABLE headers)
      set(map "${PROJECT_SOURCE_DIR}/cmake/tracering.map")
      if(BUILD_SHARED_LIBS)
        target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
        set_target_properties(${target} PROPERTIES LINK_DEPENDS "${map}")
      endif()
      target_sources(
        ${target} PUBLIC FILE_SET HEADERS BASE_DIRS
                         ${PROJECT_SOURCE_DIR}/include FILES ${headers})
    endif()
    tracering_library_options(${target} ${visibility})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PUBLIC ${arg_LINK}
                                    PRIVATE ${arg_LINK_PRIVATE})
    foreach(linked ${arg_LINK_ROOMS})
      target_link_libraries(${target} PUBLIC tracering_${linked}${variant})
    endforeach()
  endforeach()
endfunction()
