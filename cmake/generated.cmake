# Generated sources: the table of verbs, from the files in src/cli/verbs/, and the Python side.
file(GLOB verb_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/verbs/*.cc)
list(FILTER verb_files EXCLUDE REGEX "_test\\.cc$")
set(declarations "")
set(entries "")
foreach(file IN LISTS verb_files)
  get_filename_component(name ${file} NAME_WE)
  string(REPLACE "_" ";" words ${name})
  set(symbol "k")
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND symbol "${first}${rest}")
  endforeach()
  string(APPEND declarations "extern const Verb ${symbol}Verb;\n")
  string(APPEND entries "    &${symbol}Verb,\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/verb_table.cc CONTENT
"#include \"cli/verb_table.h\"

namespace shanty {

${declarations}
const Verb* const kVerbs[] = {
${entries}};
const size_t kVerbCount = sizeof kVerbs / sizeof kVerbs[0];

}  // namespace shanty
" @ONLY)

file(GLOB_RECURSE python_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/shanty/*.py
     ${CMAKE_SOURCE_DIR}/python/shanty_boot/*.py)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/embedded_python.cc
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/python
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/embedded_python.cc
          -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${python_files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding the Python side")
set(SHANTY_GENERATED_launch ${CMAKE_BINARY_DIR}/generated/embedded_python.cc)
set(SHANTY_GENERATED_cli ${CMAKE_BINARY_DIR}/generated/verb_table.cc)

file(GLOB page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/causes/pages/*/*.md)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/cause_pages.cc
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/src/causes/pages
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/cause_pages.cc
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_pages.cmake
  DEPENDS ${page_files} ${CMAKE_SOURCE_DIR}/cmake/embed_pages.cmake
  COMMENT "Embedding the pages of the causes")
set(SHANTY_GENERATED_causes ${CMAKE_BINARY_DIR}/generated/cause_pages.cc)
