#include "text/yaml_writer.h"

#include <gtest/gtest.h>

#include "text/yaml_tree.h"

namespace shanty {
namespace {

TEST(YamlWriter, KeepsOrderAndPutsCommentsAboveTheirLines) {
  Yaml root;
  root.set("kind", "Job").set("replicas", 2, "one for each node");
  Yaml& containers = root["spec"]["containers"];
  Yaml& one = containers.push(Yaml::mapping());
  one.set("name", "main", "the only one").set("command", Yaml::texts({"a", "b c", "-x"}));
  one["resources"] = Yaml::mapping();
  containers.push("two", "another");
  root.comment("A job.");
  EXPECT_EQ(root.write(),
            "# A job.\n"
            "kind: Job\n"
            "# one for each node\n"
            "replicas: 2\n"
            "spec:\n"
            "  containers:\n"
            "  # the only one\n"
            "  - name: main\n"
            "    command:\n"
            "    - a\n"
            "    - b c\n"
            "    - \"-x\"\n"
            "    resources: {}\n"
            "  # another\n"
            "  - two\n");
}

TEST(YamlWriter, LongCommentsAreBroken) {
  Yaml root;
  root.set("a", 1, std::string(60, 'x') + " " + std::string(60, 'y') + "\nz");
  EXPECT_EQ(root.write(),
            "# " + std::string(60, 'x') + "\n# " + std::string(60, 'y') + "\n# z\na: 1\n");
}

TEST(YamlWriter, QuotesWhatCouldBeReadAsSomethingElse) {
  const char* texts[] = {"",     "true", "No", "1",   "0x10", "1e3",   "-",   "~",    "null",
                         "a: b", "a #b", "#a", "[a]", "{a}",  "*a",    "&a",  "!a",   "%a",
                         "@a",   "`a",   "a:", " a",  "a ",   "\"a\"", "'a'", "1:30", "y",
                         ".5",   "a\tb", "=",  "<<",  "|",    ">"};
  for (const char* text : texts) {
    Yaml root;
    root.set("key", text);
    const std::string written = root.write();
    const ParsedYaml parsed = parse_documents(written, "test");
    ASSERT_EQ(parsed.documents.size(), 1u) << written;
    const YamlNode* value = parsed.documents[0].find("key");
    ASSERT_NE(value, nullptr) << written;
    EXPECT_EQ(value->text, text) << written;
    EXPECT_TRUE(value->is_quoted) << written;
  }
}

TEST(YamlWriter, PlainTextStaysPlain) {
  for (const char* text : {"train.py", "nvidia.com/gpu", "/dev/shm", "alpine/git:v2.47.2", "a b",
                           "image@sha256:abc", "64Gi", "512M", "--a=b.c", "INIT,NET", "A=b"}) {
    Yaml root;
    root.set("key", text);
    EXPECT_EQ(root.write(), "key: " + std::string(text) + "\n");
  }
}

TEST(YamlWriter, SeveralLinesAreABlockThatReadsBackTheSame) {
  const char* texts[] = {"a\nb\n", "a\nb",    "a\n\n  b\n",  "a\n\n\n", " a\nb",
                         "\na",    "a\n b\n", "a: b\n# c\n", "a\tb\n",  "\n"};
  for (const char* text : texts) {
    Yaml root;
    root["deep"].set("key", text).set("next", "x");
    const ParsedYaml parsed = parse_documents(root.write(), "test");
    ASSERT_EQ(parsed.documents.size(), 1u) << root.write();
    const YamlNode* deep = parsed.documents[0].find("deep");
    ASSERT_NE(deep, nullptr);
    EXPECT_EQ(deep->find("key")->text, text) << root.write();
    EXPECT_EQ(deep->find("next")->text, "x");
  }
}

TEST(YamlWriter, ControlCharactersAreEscaped) {
  EXPECT_EQ(Yaml("a\x01\nb").write(), "\"a\\x01\\nb\"\n");
}

TEST(YamlWriter, NoCharacterEndsALineBeforeItsTime) {
  EXPECT_EQ(Yaml("a\u2028b\n").write(), "\"a\\u2028b\\n\"\n");
  // NEL, a C1 control character, separators, a byte order mark, no character.
  for (const char* text : {"a\xc2\x85\nb", "a\xc2\x9f\nb", "a\u2028b\nc", "a\u2029\nb",
                           "\xef\xbb\xbf"
                           "a\nb",
                           "a\xef\xbf\xbe\nb", "a\rb\nc"}) {
    Yaml root;
    root.set("key", text, std::string("about ") + text).set("next", "x");
    const ParsedYaml parsed = parse_documents(root.write(), "test", {.aliases = true});
    ASSERT_EQ(parsed.documents.size(), 1u) << root.write();
    EXPECT_EQ(parsed.documents[0].keys.size(), 2u) << root.write();
    EXPECT_EQ(parsed.documents[0].find("key")->text, text) << root.write();
  }
}

TEST(YamlWriter, SettingAKeyAgainReplacesItsValue) {
  Yaml root;
  root.set("a", 1).set("b", 2).set("a", 3);
  EXPECT_EQ(root.write(), "a: 3\nb: 2\n");
}

}  // namespace
}  // namespace shanty
