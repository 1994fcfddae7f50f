#include "text/table.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(Table, AlignsColumnsAndDropsTrailingSpaces) {
  const Table table{.header = {"name", "value", "why"},
                    .rows = {{"a", "1", "first"}, {"longer", "23", ""}},
                    .right_aligned = {false, true}};
  EXPECT_EQ(format_table(table),
            "name    value  why\n"
            "a           1  first\n"
            "longer     23\n");
}

TEST(Table, WrapsTheLastColumnAtSpaces) {
  const Table table{.header = {},
                    .rows = {{"a", "one two three four five six seven eight"}},
                    .right_aligned = {}};
  EXPECT_EQ(format_table(table, {.width = 30}),
            "a  one two three four five six\n"
            "   seven eight\n");
}

TEST(Table, CutsAWordLongerThanTheWidth) {
  const Table table{.header = {}, .rows = {{"a", std::string(60, 'x')}}, .right_aligned = {}};
  EXPECT_EQ(format_table(table, {.width = 33}),
            "a  " + std::string(30, 'x') + "\n   " + std::string(30, 'x') + "\n");
}

TEST(Table, CountsWideCharactersAsTwo) {
  const Table table{
      .header = {}, .rows = {{"\xe6\xbc\xa2", "x"}, {"abc", "y"}}, .right_aligned = {}};
  EXPECT_EQ(format_table(table), "\xe6\xbc\xa2   x\nabc  y\n");
}

TEST(Table, NarrowTerminalStillShowsEverything) {
  const Table table{.header = {}, .rows = {{"name", "a b"}}, .right_aligned = {}};
  EXPECT_EQ(format_table(table, {.width = 1}), "name  a b\n");
  EXPECT_EQ(format_table(Table{}), "");
}

}  // namespace
}  // namespace shanty
