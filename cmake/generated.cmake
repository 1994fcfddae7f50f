# Generated sources: tables of what the files of a directory define, the Python side, the pages of
# the causes.

# foo_bar -> FooBar
function(shanty_symbol_of name out)
  string(REPLACE "_" ";" words ${name})
  set(symbol "")
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND symbol "${first}${rest}")
  endforeach()
  set(${out} ${symbol} PARENT_SCOPE)
endfunction()

# Writes generated/NAME.cc: a declaration for each file of src/DIRECTORY, then BEFORE, an entry for
# each, AFTER. In both, <Symbol> is FooBar and <file> foo_bar for foo_bar.cc.
function(shanty_table name directory)
  cmake_parse_arguments(PARSE_ARGV 2 at "" "HEADER;NAMESPACE;DECLARATION;ENTRY;BEFORE;AFTER" "")
  if(NOT at_NAMESPACE)
    set(at_NAMESPACE shanty)
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${directory}/*.cc)
  list(FILTER files EXCLUDE REGEX "_test\\.cc$")
  set(declarations "")
  set(entries "")
  foreach(file IN LISTS files)
    get_filename_component(stem ${file} NAME_WE)
    shanty_symbol_of(${stem} symbol)
    foreach(what DECLARATION ENTRY)
      string(REPLACE "<Symbol>" "${symbol}" text "${at_${what}}")
      string(REPLACE "<file>" "${stem}" text "${text}")
      if(what STREQUAL DECLARATION)
        string(APPEND declarations "${text}\n")
      else()
        string(APPEND entries "    ${text}\n")
      endif()
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.cc CONTENT
"#include \"${at_HEADER}\"

namespace ${at_NAMESPACE} {

${declarations}
${at_BEFORE}
${entries}${at_AFTER}

}  // namespace ${at_NAMESPACE}
" @ONLY)
endfunction()

# `const TYPE* const kTYPEs[]` with kTYPECount: pointers to each file's `extern const TYPE kFooSUFFIX`.
function(shanty_pointers name directory type suffix header)
  shanty_table(${name} ${directory}
    HEADER ${header}
    DECLARATION "extern const ${type} k<Symbol>${suffix};"
    ENTRY "&k<Symbol>${suffix},"
    BEFORE "const ${type}* const k${type}s[] = {"
    AFTER "};\nconst size_t k${type}Count = sizeof k${type}s / sizeof k${type}s[0];")
endfunction()

shanty_pointers(verb_table cli/verbs Verb Verb cli/verb_table.h)
set(SHANTY_GENERATED_cli ${CMAKE_BINARY_DIR}/generated/verb_table.cc)

shanty_pointers(target_table render/targets RenderTarget Target render/target.h)
set(SHANTY_GENERATED_render ${CMAKE_BINARY_DIR}/generated/target_table.cc)

shanty_table(rule_table lint/rules
  HEADER lint/rule.h
  NAMESPACE shanty::lint
  DECLARATION "extern const std::span<const Rule> k<Symbol>Rules;"
  ENTRY "k<Symbol>Rules,"
  BEFORE "std::span<const std::span<const Rule>> all_rules() {\n  static const std::span<const Rule> kAll[] = {"
  AFTER "  };\n  return kAll;\n}")
set(SHANTY_GENERATED_lint ${CMAKE_BINARY_DIR}/generated/rule_table.cc)

shanty_table(doctor_rules doctor/rules
  HEADER doctor/rule.h
  DECLARATION "void <file>_rule(const Case&, Hypotheses&);"
  ENTRY "<file>_rule,"
  BEFORE "const Rule kRules[] = {"
  AFTER "};\nconst size_t kRuleCount = sizeof kRules / sizeof kRules[0];")
set(SHANTY_GENERATED_doctor ${CMAKE_BINARY_DIR}/generated/doctor_rules.cc)

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

file(GLOB page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/causes/pages/*/*.md)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/cause_pages.cc
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/src/causes/pages
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/cause_pages.cc
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_pages.cmake
  DEPENDS ${page_files} ${CMAKE_SOURCE_DIR}/cmake/embed_pages.cmake
  COMMENT "Embedding the pages of the causes")
set(SHANTY_GENERATED_causes ${CMAKE_BINARY_DIR}/generated/cause_pages.cc)
