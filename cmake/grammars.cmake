# The target `tree_sitter`: the parser library and its grammars, from what scripts/setup.sh put into
# build/grammars by cmake/grammars.txt. Not our code: no warnings of ours.
set(grammars ${CMAKE_SOURCE_DIR}/build/grammars)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${grammars}/.complete)
if(NOT EXISTS ${grammars}/.complete)
  message(FATAL_ERROR "${grammars} is not there or not whole: run scripts/setup.sh")
endif()
set(library ${grammars}/tree-sitter/tree_sitter/core/lib)
# The grammars include "tree_sitter/parser.h", which their packages leave out.
foreach(header parser.h alloc.h array.h)
  configure_file(${library}/src/${header} ${grammars}/include/tree_sitter/${header} COPYONLY)
endforeach()
add_library(tree_sitter STATIC ${library}/src/lib.c
            ${grammars}/tree-sitter-python/src/parser.c ${grammars}/tree-sitter-python/src/scanner.c
            ${grammars}/tree-sitter-bash/src/parser.c ${grammars}/tree-sitter-bash/src/scanner.c)
target_include_directories(tree_sitter SYSTEM PUBLIC ${library}/include
                           PRIVATE ${library}/src ${grammars}/include)
target_compile_definitions(tree_sitter PRIVATE _DEFAULT_SOURCE _POSIX_C_SOURCE=200112L)
target_compile_options(tree_sitter PRIVATE -w)
if(SHANTY_SANITIZE MATCHES "undefined")
  # It calls the scanners' functions through a type of fewer parameters.
  target_compile_options(tree_sitter PRIVATE -fno-sanitize=function)
endif()
set_target_properties(tree_sitter PROPERTIES C_STANDARD 11
                      C_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
