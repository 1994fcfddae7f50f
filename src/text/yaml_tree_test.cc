#include "text/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::HasSubstr;

ParsedYaml parse(std::string_view text) { return parse_documents(text, "t.yaml"); }

std::string only_problem(std::string_view text) {
  const ParsedYaml parsed = parse(text);
  if (parsed.diagnostics.size() != 1) return "expected one problem";
  return format_diagnostic(parsed.diagnostics[0]);
}

TEST(YamlTree, ValuesAndKeysKnowTheirPlaces) {
  const ParsedYaml parsed = parse("a: 1\nb:\n  - x\n  - {c: 'y'}\n");
  ASSERT_TRUE(parsed.diagnostics.empty());
  ASSERT_EQ(parsed.documents.size(), 1u);
  const YamlNode& root = parsed.documents[0];
  EXPECT_EQ(root.kind, YamlNode::Kind::kMapping);
  EXPECT_EQ(root.keys[1].place, (Place{2, 1}));
  const YamlNode* list = root.find("b");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->items[0].place, (Place{3, 5}));
  const YamlNode* inner = list->items[1].find("c");
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->text, "y");
  EXPECT_TRUE(inner->is_quoted);
  EXPECT_EQ(inner->place, (Place{4, 9}));
  EXPECT_EQ(root.find("z"), nullptr);
}

TEST(YamlTree, NullIsOnlyWhatYamlCallsNull) {
  const YamlNode root = parse("[~, null, '', 'null', no]").documents.at(0);
  EXPECT_EQ(root.items[0].kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.items[1].kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.items[2].kind, YamlNode::Kind::kScalar);
  EXPECT_EQ(root.items[3].kind, YamlNode::Kind::kScalar);
  EXPECT_EQ(root.items[4].text, "no");
}

TEST(YamlTree, ByteOrderMarkDoesNotMoveColumns) {
  EXPECT_EQ(parse("\xef\xbb\xbf"
                  "a: 1")
                .documents.at(0)
                .keys[0]
                .place,
            (Place{1, 1}));
}

TEST(YamlTree, ColumnsCountCharacters) {
  EXPECT_EQ(parse("{\xc3\xa4\xc3\xb6: 1, b: 2}").documents.at(0).keys[1].place, (Place{1, 9}));
}

TEST(YamlTree, DuplicateKeysAreAllReportedAndTheTreeKept) {
  const ParsedYaml parsed = parse("a: 1\nb: 2\na: 3\nb: 4\n");
  ASSERT_EQ(parsed.diagnostics.size(), 2u);
  EXPECT_EQ(format_diagnostic(parsed.diagnostics[0]),
            "t.yaml:3:1: duplicate key \"a\", first given in line 1");
  EXPECT_EQ(parsed.documents.size(), 1u);
}

TEST(YamlTree, SeveralDocumentsOnlyWhereAllowed) {
  EXPECT_EQ(only_problem("a: 1\n---\nb: 2\n"),
            "t.yaml:2:1: expected one YAML document, found another one");
  const ParsedYaml many = parse_documents("a: 1\n---\nb: 2\n", "k.yaml", {.documents = 10});
  EXPECT_TRUE(many.diagnostics.empty());
  EXPECT_EQ(many.documents.size(), 2u);
}

TEST(YamlTree, EmptyTextHasNoDocument) {
  EXPECT_TRUE(parse("").documents.empty());
  EXPECT_TRUE(parse("# nothing\n").documents.empty());
  EXPECT_TRUE(parse("").diagnostics.empty());
}

TEST(YamlTree, AnchorsAliasesAndMergeKeysAreRefused) {
  EXPECT_THAT(only_problem("a: &x 1\nb: *x\n"), HasSubstr("t.yaml:1:4: anchors and aliases"));
  EXPECT_THAT(only_problem("b: *x\n"), HasSubstr("anchors and aliases"));
  EXPECT_THAT(only_problem("<<: {a: 1}\n"), HasSubstr("merge keys"));
}

ParsedYaml parse_shared(std::string_view text, YamlLimits limits = {}) {
  limits.aliases = true;
  return parse_documents(text, "t.yaml", limits);
}

std::string only_shared_problem(std::string_view text) {
  const ParsedYaml parsed = parse_shared(text);
  return parsed.diagnostics.size() == 1 ? format_diagnostic(parsed.diagnostics[0]) : "";
}

TEST(YamlTree, AliasesAreCopiesThatKnowWhereTheyComeFrom) {
  const ParsedYaml parsed = parse_shared("a: &x\n  b: [1]\nc: *x\nd: *x\n");
  ASSERT_TRUE(parsed.diagnostics.empty());
  const YamlNode* copy = parsed.documents.at(0).find("d")->find("b");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->items.at(0).text, "1");
  EXPECT_EQ(copy->items[0].place, (Place{2, 7}));
}

TEST(YamlTree, MergeKeysFillWhatIsNotSaid) {
  const ParsedYaml parsed =
      parse_shared("x: &x {a: 1, b: 1}\ny: &y {a: 2, c: 2}\nz:\n  <<: [*x, *y]\n  b: 3\n");
  ASSERT_TRUE(parsed.diagnostics.empty());
  const YamlNode* z = parsed.documents.at(0).find("z");
  EXPECT_EQ(z->keys.size(), 3u);
  EXPECT_EQ(z->find("a")->text, "1");
  EXPECT_EQ(z->find("b")->text, "3");
  EXPECT_EQ(z->find("c")->text, "2");
}

TEST(YamlTree, SharingThatCannotBeIsNamed) {
  EXPECT_THAT(only_shared_problem("a: *x\n"), HasSubstr("\"x\" stands for nothing before it"));
  EXPECT_THAT(only_shared_problem("a: &x [*x]\n"), HasSubstr("stands for nothing before it"));

  const ParsedYaml two = parse_shared("a: &x 1\n---\nb: *x\n", {.documents = 2});
  ASSERT_EQ(two.diagnostics.size(), 1u);
  EXPECT_THAT(format_diagnostic(two.diagnostics[0]), HasSubstr("t.yaml:3:4: the alias"));
  EXPECT_THAT(only_shared_problem("<<: 1\n"), HasSubstr("a merge key takes a mapping"));
  EXPECT_THAT(only_shared_problem("a: &x b\n*x : 1\n"), HasSubstr("found an alias"));
}

TEST(YamlTree, BombsOfAliasesAreRefused) {
  std::string values = "a0: &a0 [1]\n";
  std::string depth = "a0: &a0 [1]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    const std::string name = "a" + std::to_string(i);
    values += name + ": &" + name + " [" + before + ", " + before + "]\n";
    depth += name + ": &" + name + " [" + before + "]\n";
  }
  EXPECT_THAT(only_shared_problem(values), HasSubstr("more than 10000 values"));
  EXPECT_THAT(only_shared_problem(depth), HasSubstr("nested deeper than 32 levels"));
  std::string text = "a: &a " + std::string(64u << 10, 'x') + "\nb: [";
  for (int i = 0; i < 65; ++i) text += "*a,";
  EXPECT_THAT(only_shared_problem(text + "]\n"), HasSubstr("4.0 MiB of text"));
}

TEST(YamlTree, KeysMustBeText) {
  EXPECT_THAT(only_problem("{a: b}: c\n"), HasSubstr("a key must be text, found a mapping"));
  EXPECT_THAT(only_problem("? [a]\n: c\n"), HasSubstr("a key must be text, found a list"));
  EXPECT_THAT(only_problem("? \n: c\n"), HasSubstr("a key must be text, found nothing"));
}

TEST(YamlTree, ForeignTagsAreRefused) {
  EXPECT_THAT(only_problem("a: !!python/object:os.system x\n"), HasSubstr("tag"));
  EXPECT_TRUE(parse("a: !!str 5\n").documents.at(0).items[0].is_quoted);
}

TEST(YamlTree, TextThatIsNoTextIsRefusedAtItsPlace) {
  EXPECT_EQ(only_problem(std::string_view("a: 1\nb: \0\n", 10)),
            "t.yaml:2:4: the file contains a NUL byte; is it text?");
  EXPECT_EQ(only_problem("a: 1\nb: \xff\n"), "t.yaml:2:4: the file is not valid UTF-8 here");
  EXPECT_THAT(only_problem("a: \x01\n"), HasSubstr("t.yaml:1:4: control characters"));
  EXPECT_THAT(only_problem("a: \"x\\0y\"\n"), HasSubstr("a value contains a control character"));
  EXPECT_TRUE(parse("a: \"x\\n\\ty\"\n").diagnostics.empty());
}

TEST(YamlTree, TabsAreCalledTabs) {
  EXPECT_EQ(only_problem("a:\n\tb: 1\n"), "t.yaml:2:1: a tab cannot indent YAML");
}

TEST(YamlTree, BrokenSyntaxHasAPlace) {
  EXPECT_THAT(only_problem("a: [1, 2\n"), HasSubstr("t.yaml:2:1: not valid YAML"));
  EXPECT_THAT(only_problem("a: 'x\n"), HasSubstr("not valid YAML"));
}

TEST(YamlTree, DepthHasALimit) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse(nested(32)).diagnostics.empty());
  EXPECT_EQ(only_problem(nested(33)), "t.yaml:1:33: nested deeper than 32 levels");
  EXPECT_FALSE(parse(std::string(500'000, '[')).diagnostics.empty());
  EXPECT_FALSE(parse(std::string(500'000, '{')).diagnostics.empty());
  std::string blocks;
  for (size_t i = 0; i < 700; ++i) blocks += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(only_problem(blocks), HasSubstr("nested deeper than 32 levels"));
}

TEST(YamlTree, SizeScalarsAndValuesHaveLimits) {
  EXPECT_THAT(only_problem(std::string((1u << 20) + 1, 'a')), HasSubstr("larger than 1.0 MiB"));
  EXPECT_TRUE(parse("a: " + std::string(64u << 10, 'x')).diagnostics.empty());
  EXPECT_THAT(only_problem("a: " + std::string((64u << 10) + 1, 'x')),
              HasSubstr("t.yaml:1:4: a single value of 64.0 KiB"));
  std::string many = "[";
  for (int i = 0; i < 10'001; ++i) many += "1,";
  EXPECT_THAT(only_problem(many + "]"), HasSubstr("more than 10000 values"));
}

}  // namespace
}  // namespace shanty
