# cmake -P embed.cmake ROOT=... OUTPUT=... : writes a .cc holding the files of the Python side.
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/shanty/*.py ${ROOT}/shanty/py.typed
     ${ROOT}/shanty_boot/*.py)
list(SORT files)
set(text "#include \"launch/embedded_python.h\"\n\nnamespace shanty {\n\n")
string(APPEND text "const EmbeddedFile kEmbeddedPython[] = {\n")
set(count 0)
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} content)
  string(APPEND text "    {\"${file}\", R\"EMBEDDED(${content})EMBEDDED\"},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND text "};\nconst size_t kEmbeddedPythonCount = ${count};\n\n}  // namespace shanty\n")
file(WRITE ${OUTPUT} "${text}")
