add_compile_options(
  -Wall -Wextra -Wconversion -Wshadow -Werror -Wno-missing-field-initializers
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast> $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 reports false positives on std::string at -O2 for these.
  add_compile_options(-Wno-error=restrict -Wno-error=maybe-uninitialized -Wno-restrict
                      -Wno-maybe-uninitialized)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Of libstdc++ 12's own std::stable_sort.
  add_compile_options(-Wno-deprecated-declarations)
endif()
