#include "lint/syntax/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::lint {
namespace {

TEST(SyntaxTree, KnowsKindsFieldsAndPlaces) {
  const std::string_view text = "# comment\nf(x)  # é\nü = g(1, k=2)\n";
  const auto tree = SyntaxTree::parse(text, Grammar::kPython);
  ASSERT_TRUE(tree.ok());
  NodeId call = 0;
  while (!tree->is(call, "call") || tree->text(call) != "g(1, k=2)") ++call;
  EXPECT_EQ(tree->text(tree->child(call, "function")), "g");
  EXPECT_EQ(tree->children(tree->child(call, "arguments")).size(), 2u);
  EXPECT_EQ(tree->place(call), (Place{3, 5}));
  EXPECT_TRUE(tree->is(tree->parent(call), "assignment"));
  EXPECT_EQ(tree->child(call, "no such field"), kNoNode);
  EXPECT_EQ(tree->ancestor(call, "module"), 0u);
  EXPECT_EQ(tree->broken(), SyntaxTree::kNoOffset);
}

TEST(SyntaxTree, SaysWhereItIsBroken) {
  const auto tree = SyntaxTree::parse("x = 1\ny = = 2\n", Grammar::kPython);
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->place_of(tree->broken()).line, 2);
}

TEST(SyntaxTree, KeepsTheShellsTokens) {
  const auto tree = SyntaxTree::parse("a | b &\n", Grammar::kShell);
  ASSERT_TRUE(tree.ok());
  int tokens = 0;
  for (NodeId node = 0; node < tree->size(); ++node) {
    tokens += tree->is(node, "|") || tree->is(node, "&") ? 1 : 0;
  }
  EXPECT_EQ(tokens, 2);
}

TEST(SyntaxTree, NamesTheLimitThatIsPassed) {
  const auto message = [](std::string_view text, const SyntaxLimits& limits) {
    const auto tree = SyntaxTree::parse(text, Grammar::kPython, limits);
    return tree.ok() ? std::string() : tree.error().message;
  };
  EXPECT_THAT(message("x = 1\n", {.bytes = 3}), testing::HasSubstr("more than 3"));
  EXPECT_THAT(message("x = [1, 2, 3]\n", {.nodes = 4}), testing::HasSubstr("4 parts"));
  EXPECT_THAT(message("x = ((((1))))\n", {.depth = 5}), testing::HasSubstr("5 levels"));
  EXPECT_THAT(message("x = 1\n", {}), testing::IsEmpty());
}

}  // namespace
}  // namespace shanty::lint
