#include "doctor/flight/pickle.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/flight/dump.h"
#include "doctor/flight/json_dump.h"
#include "doctor/flight/test_dump.h"

namespace shanty::flight {
namespace {

using testing::HasSubstr;

class NoSink : public EntrySink {
 public:
  void on_entry(std::span<const Value>, const Place&) override { ++entries; }
  int entries = 0;
};

std::string problem_of(std::string_view bytes) {
  ValueTree tree;
  NoSink sink;
  const auto value = read_pickle(bytes, tree, sink);
  return value ? "" : value.error().message;
}

using namespace std::string_view_literals;

TEST(Pickle, ReadsPlainValues) {
  ValueTree tree;
  NoSink sink;
  // {"version": "2.10", "rank": -2, "x": [1, (True, None)]}
  const auto root = read_pickle(
      "\x80\x02}q\x00(X\x07\x00\x00\x00versionX\x04\x00\x00\x00"
      "2.10X\x04\x00\x00\x00rankJ\xfe\xff\xff\xffX\x01\x00\x00\x00x](K\x01\x88N\x86\x65u."sv,
      tree, sink);
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(tree.text(tree.get(*root, Field::kVersion)), "2.10");
  EXPECT_EQ(tree.get(*root, Field::kRank).number, -2);
  ASSERT_EQ(tree.items(*root).size(), 6U);
  const auto list = tree.items(tree.items(*root)[5]);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].number, 1);
  EXPECT_EQ(tree.items(list[1]).size(), 2U);
}

TEST(Pickle, ReadsProtocolFourWithFramesAndMemo) {
  ValueTree tree;
  NoSink sink;
  const auto root = read_pickle(
      "\x80\x04\x95\x1b\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x04rank\x94K\x07\x8c\x04name\x94h\x01u."sv,
      tree, sink);
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(tree.get(*root, Field::kRank).number, 7);
  EXPECT_EQ(tree.text(tree.get(*root, Field::kName)), "rank");
}

TEST(Pickle, ListsGrowInSeveralBatches) {
  std::string bytes = "\x80\x02]";
  for (int batch = 0; batch < 3; ++batch) {
    bytes += "(";
    for (int i = 0; i < 100; ++i) bytes += "K\x05";
    bytes += "e";
    bytes +=
        "K\x06"
        "a";
  }
  bytes += ".";
  ValueTree tree;
  NoSink sink;
  const auto root = read_pickle(bytes, tree, sink);
  ASSERT_TRUE(root) << root.error().message;
  ASSERT_EQ(tree.items(*root).size(), 303U);
  EXPECT_EQ(tree.items(*root)[302].number, 6);
}

struct Refused {
  const char* name;
  std::string_view bytes;
};

TEST(Pickle, RefusesWhateverCouldDoSomething) {
  const Refused cases[] = {
      // cos\nsystem\n(X...tR.
      {"GLOBAL",
       "\x80\x02"
       "cos\nsystem\n(X\x02\x00\x00\x00idtR."sv},
      {"STACK_GLOBAL", "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."sv},
      {"REDUCE", "\x80\x02K\x01K\x02R."sv},
      {"BUILD", "\x80\x02}}b."sv},
      {"INST", "\x80\x02(ios\nsystem\n."sv},
      {"OBJ", "\x80\x02(K\x01o."sv},
      {"NEWOBJ", "\x80\x02K\x01)\x81."sv},
      {"NEWOBJ_EX", "\x80\x02K\x01)}\x92."sv},
      {"EXT1", "\x80\x02\x82\x01."sv},
      {"EXT2", "\x80\x02\x83\x01\x00."sv},
      {"EXT4", "\x80\x02\x84\x01\x00\x00\x00."sv},
      {"PERSID", "\x80\x02Pid\n."sv},
      {"BINPERSID", "\x80\x02K\x01Q."sv},
      {"NEXT_BUFFER", "\x80\x05\x97."sv},
  };
  for (const Refused& one : cases) {
    const std::string problem = problem_of(one.bytes);
    EXPECT_THAT(problem, HasSubstr(std::string("opcode ") + one.name + " at byte")) << one.name;
    EXPECT_THAT(problem, HasSubstr("nothing of it was executed")) << one.name;
  }
}

TEST(Pickle, RefusesOpcodesItDoesNotKnow) {
  EXPECT_THAT(problem_of("\x80\x02\x8f."sv), HasSubstr("opcode 0x8f at byte 2"));
  EXPECT_THAT(problem_of("\x80\x02I5\n."sv), HasSubstr("opcode 0x49"));
}

TEST(Pickle, SaysWhereATornOneEnds) {
  const std::string whole = to_pickle({.groups = {{"0", "default_pg", {0, 1}}}, .entries = {{}}});
  ASSERT_EQ(problem_of(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(problem_of(std::string_view(whole).substr(0, size)), "") << size;
  }
}

TEST(Pickle, BoundsDepthMemoAndNumbers) {
  std::string deep = "\x80\x02";
  deep.append(kMaxPickleDepth + 1, '(');
  EXPECT_THAT(problem_of(deep), HasSubstr("nests too deeply"));
  EXPECT_THAT(problem_of("\x80\x02Nr\xff\xff\xff\x7f."sv), HasSubstr("memo"));
  EXPECT_THAT(problem_of("\x80\x02h\x05."sv), HasSubstr("memo that it never made"));
  EXPECT_THAT(problem_of("\x80\x02\x8a\x09"
                         "123456789."sv),
              HasSubstr("64 bits"));
  EXPECT_THAT(problem_of("\x80\x02"
                         "e."sv),
              HasSubstr("not there"));
  EXPECT_THAT(problem_of("\x80\x02}K\x01K\x02K\x03u."sv), HasSubstr("not there"));
  EXPECT_THAT(problem_of("\x80\x06N."sv), HasSubstr("protocol"));
}

// Lists in lists in lists, each ten times the one before: gigabytes for whoever walks all of it.
TEST(Pickle, ReadsABombWithoutWalkingIt) {
  std::string bomb = "\x80\x02";
  bomb += "}(X\x07";
  bomb.append(3, '\0');
  bomb += "entries](";
  bomb += "]q";
  bomb += '\0';
  for (char level = 1; level < 40; ++level) {
    bomb += "](";
    for (int i = 0; i < 10; ++i) {
      bomb += 'h';
      bomb += static_cast<char>(level - 1);
    }
    bomb += "eq";
    bomb += level;
  }
  bomb += "eu.";
  Tables tables;
  DumpReader reader(tables);
  const auto trace = reader.read(bomb);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_TRUE(trace->entries.empty());
}

TEST(Pickle, ReadsAListThatHoldsItself) {
  EXPECT_EQ(problem_of("\x80\x02]q\x00h\x00"
                       "a."sv),
            "");
}

TEST(Dump, TheTwoFormsSayTheSame) {
  TestDump dump{.groups = {{"0", "default_pg", {0, 1}}},
                .entries = {{.seq = 1}, {.seq = 2, .sizes = {3, 4}}}};
  Tables tables;
  DumpReader reader(tables);
  const auto pickle = reader.read(to_pickle(dump));
  const auto json = reader.read(to_json(dump));
  ASSERT_TRUE(pickle) << pickle.error().message;
  ASSERT_TRUE(json) << json.error().message;
  ASSERT_EQ(pickle->entries.size(), 2U);
  ASSERT_EQ(json->entries.size(), 2U);
  EXPECT_EQ(pickle->entries[1].call, json->entries[1].call);
  EXPECT_EQ(pickle->entries[1].group, json->entries[1].group);
  EXPECT_EQ(tables.call(json->entries[1].call).shapes, "[[3, 4]] Float -> [[3, 4]] Float");
  EXPECT_EQ(tables.place(pickle->entries[1].stack), "train.py:29 in step");
  EXPECT_EQ(json->entries[1].stack, 0U);
}

TEST(Dump, IsToldFromOtherJsonAndPickles) {
  EXPECT_TRUE(looks_like_dump(to_pickle({.entries = {{}}})));
  EXPECT_TRUE(looks_like_dump(to_json({.entries = {{}}})));
  EXPECT_FALSE(looks_like_dump("{\"kind\": \"Pod\"}"));
  EXPECT_FALSE(looks_like_dump("step 1 loss 2.0"));
  Tables tables;
  DumpReader reader(tables);
  EXPECT_FALSE(reader.read("{\"kind\": \"Pod\"}"));
  EXPECT_FALSE(reader.read("{\"entries\": [{\"profiling_name\": "));
}

}  // namespace
}  // namespace shanty::flight
