# Generated sources: the table of verbs, from the files in src/cli/verbs/, the table of the linter's
# rules, and the Python side.

# foo_bar -> kFooBar
function(shanty_symbol_of name out)
  string(REPLACE "_" ";" words ${name})
  set(symbol "k")
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND symbol "${first}${rest}")
  endforeach()
  set(${out} ${symbol} PARENT_SCOPE)
endfunction()

file(GLOB verb_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/verbs/*.cc)
list(FILTER verb_files EXCLUDE REGEX "_test\\.cc$")
set(declarations "")
set(entries "")
foreach(file IN LISTS verb_files)
  get_filename_component(name ${file} NAME_WE)
  shanty_symbol_of(${name} symbol)
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

# The table of the linter's rules, from the files in src/lint/rules/.
file(GLOB rule_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/lint/rules/*.cc)
list(FILTER rule_files EXCLUDE REGEX "_test\\.cc$")
set(declarations "")
set(entries "")
foreach(file IN LISTS rule_files)
  get_filename_component(name ${file} NAME_WE)
  shanty_symbol_of(${name} symbol)
  string(APPEND declarations "extern const std::span<const Rule> ${symbol}Rules;\n")
  string(APPEND entries "      ${symbol}Rules,\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/rule_table.cc CONTENT
"#include \"lint/rule.h\"

namespace shanty {

${declarations}
std::span<const std::span<const Rule>> all_rules() {
  static const std::span<const Rule> kAll[] = {
${entries}  };
  return kAll;
}

}  // namespace shanty
" @ONLY)
set(SHANTY_GENERATED_lint ${CMAKE_BINARY_DIR}/generated/rule_table.cc)
