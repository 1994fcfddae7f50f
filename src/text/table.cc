#include "text/table.h"

#include <algorithm>
#include <string_view>

#include "text/utf8.h"

namespace shanty {
namespace {

constexpr size_t kGapColumns = 2;
constexpr size_t kMinLastColumns = 24;

using Row = std::vector<std::string>;

Row printable_row(const Row& row, size_t columns) {
  Row out;
  for (size_t i = 0; i < columns; ++i) out.push_back(i < row.size() ? printable(row[i]) : "");
  return out;
}

std::vector<size_t> column_widths(const std::vector<Row>& rows, size_t columns) {
  std::vector<size_t> widths(columns, 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

// Breaks at spaces; a word longer than `width` is cut.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (display_width(text) > width) {
    const std::string_view fits = prefix_of_width(text, width);
    size_t end = fits.size();
    if (text[end] != ' ') {
      const size_t space = fits.rfind(' ');
      if (space != fits.npos && space > 0) end = space;
    }
    end = std::max<size_t>(end, 1);
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  }
  lines.emplace_back(text);
  return lines;
}

std::string padded(const std::string& cell, size_t width, bool right) {
  const size_t used = display_width(cell);
  const std::string fill(width > used ? width - used : 0, ' ');
  return right ? fill + cell : cell + fill;
}

void append_line(std::string& out, std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  out += line + "\n";
}

class Layout {
 public:
  Layout(const Table& table, std::vector<size_t> widths, TableStyle style)
      : table_(table), widths_(std::move(widths)), style_(style) {
    for (size_t i = 0; i + 1 < widths_.size(); ++i) indent_ += widths_[i] + kGapColumns;
    if (style.width > 0)
      last_width_ = std::max(kMinLastColumns, style.width - std::min(style.width, indent_));
  }

  void append(std::string& out, const Row& row) const {
    std::string line;
    const size_t last = row.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      line += padded(row[i], widths_[i], right(i)) + std::string(kGapColumns, ' ');
    }
    if (last_width_ == 0 || right(last)) {
      append_line(out, line + padded(row[last], right(last) ? widths_[last] : 0, right(last)));
      return;
    }
    for (const std::string& part : wrap(row[last], last_width_)) {
      append_line(out, line + part);
      line = std::string(indent_, ' ');
    }
  }

 private:
  bool right(size_t i) const { return i < table_.right_aligned.size() && table_.right_aligned[i]; }

  const Table& table_;
  std::vector<size_t> widths_;
  TableStyle style_;
  size_t indent_ = 0;
  size_t last_width_ = 0;
};

}  // namespace

std::string format_table(const Table& table, TableStyle style) {
  size_t columns = table.header.size();
  for (const Row& row : table.rows) columns = std::max(columns, row.size());
  if (columns == 0) return "";
  std::vector<Row> rows;
  if (!table.header.empty()) rows.push_back(printable_row(table.header, columns));
  for (const Row& row : table.rows) rows.push_back(printable_row(row, columns));
  const Layout layout(table, column_widths(rows, columns), style);
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool bold = style.color && i == 0 && !table.header.empty();
    if (bold) out += "\x1b[1m";
    layout.append(out, rows[i]);
    if (bold) out.insert(out.size() - 1, "\x1b[0m");
  }
  return out;
}

}  // namespace shanty
