#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shanty {

// A text table for terminals: columns aligned by display width, the last one wrapped at spaces
// to fit the width.
struct Table {
  std::vector<std::string> header;             // empty: none is printed
  std::vector<std::vector<std::string>> rows;  // short rows are filled with empty cells
  std::vector<bool> right_aligned;             // by column; missing means left
};

struct TableStyle {
  size_t width = 0;  // columns of the terminal; 0: never wrap
  bool color = false;
};

// Lines without trailing spaces, each ended by a newline. Cells are made printable first.
std::string format_table(const Table& table, TableStyle style = {});

}  // namespace shanty
