#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "wire/embedded.h"
#include "wire/random_message.h"

namespace shanty::wire {
namespace {

using testing::HasSubstr;

const std::string kSmallest =
    R"({"v":1,"type":"agent","report":{"incarnation":1,"seq":0,"epoch":0,"phase":"idle","slots":1,)"
    R"("world":{"generation":0}}})";

// The smallest message with `what` replaced by `by`.
std::string with(const std::string& what, const std::string& by) {
  std::string text = kSmallest;
  text.replace(text.find(what), what.size(), by);
  return text;
}

std::string error_of(const std::string& text) {
  const auto result = decode_agent_message(text);
  EXPECT_FALSE(result.ok()) << text.substr(0, 200);
  return result.ok() ? "" : result.error().message;
}

TEST(Decode, TheSmallestMessageIsFine) {
  const auto message = decode_agent_message(kSmallest);
  ASSERT_TRUE(message.ok()) << message.error().message;
  EXPECT_EQ(message->report.wanted_node_rank, -1);
  EXPECT_TRUE(message->ranks.empty());
}

TEST(Decode, UnknownFieldsAreIgnored) {
  EXPECT_TRUE(decode_agent_message(with("\"seq\":0", R"("seq":0,"new":{"x":[1,2,{}]})")).ok());
}

TEST(Decode, AnotherVersionIsToldWithBothNumbers) {
  const std::string error = error_of(with("\"v\":1", "\"v\":2"));
  EXPECT_THAT(error, HasSubstr("speaks version 2 of the protocol and this one version 1"));
  EXPECT_THAT(error, HasSubstr("install the same shanty on each node"));
  EXPECT_THAT(error_of(with("\"v\":1", "\"v\":\"1\"")), HasSubstr("no known version"));
  EXPECT_THAT(error_of(with("\"v\":1,", "")), HasSubstr("no known version"));
}

TEST(Decode, AMessageOfTheOtherEndIsNotMistaken) {
  EXPECT_THAT(error_of(encode(RandomMessage(1).coordinator())), HasSubstr("its type is another"));
  EXPECT_FALSE(decode_coordinator_message(kSmallest).ok());
}

TEST(Decode, EachLimitHolds) {
  const struct {
    const char* what;
    const char* by;
    const char* error;
  } cases[] = {
      {R"("incarnation":1)", R"("incarnation":0)", "report.incarnation is not a whole number"},
      {R"("incarnation":1)", R"("incarnation":-1)", "report.incarnation"},
      {R"("incarnation":1)", R"("incarnation":18446744073709551616)", "report.incarnation"},
      {R"("incarnation":1)", R"("incarnation":1.5)", "report.incarnation"},
      {R"("incarnation":1)", R"("incarnation":"1")", "report.incarnation"},
      {R"("incarnation":1)", R"("incarnation":null)", "report.incarnation"},
      {R"("incarnation":1,)", "", "report.incarnation is missing"},
      {R"("slots":1)", R"("slots":1025)", "report.slots is not a whole number from 0 to 1024"},
      {R"("slots":1)", R"("slots":-1)", "report.slots"},
      {R"("slots":1)", R"("slots":1,"free_port":65536)", "report.free_port"},
      {R"("slots":1)", R"("slots":1,"wanted_node_rank":-2)", "report.wanted_node_rank"},
      {R"("slots":1)", R"("slots":1,"leaving":1)", "report.leaving is not true or false"},
      {R"("slots":1)", R"("slots":1,"node":7)", "report.node is not a text"},
      {R"("slots":1)", R"("slots":1,"exits":{})", "report.exits is not a list"},
      {R"("slots":1)", R"("slots":1,"exits":[7])", "report.exits[0]. is not an object"},
      {R"("slots":1)", R"("slots":1,"exits":[{"rank":1},{"rank":1,"signal":129}])",
       "report.exits[1].signal is not a whole number from 0 to 128"},
      {R"("slots":1)", R"("slots":1,"exits":[{}])", "report.exits[0].rank is missing"},
      {R"("slots":1)", R"("slots":1,"exits":[{"rank":1,"step":-1}])", "report.exits[0].step"},
      {R"("phase":"idle")", R"("phase":"dead")", "report.phase is none of the words"},
      {R"("phase":"idle")", R"("phase":0)", "report.phase"},
      {R"({"generation":0})", R"({"generation":0,"world_size":16777217})",
       "report.world.world_size"},
      {R"({"generation":0})", R"({"generation":0,"history":[[]]})", "report.world.history[0]"},
      {R"({"generation":0})", R"([])", "report.world. is not an object"},
      {R"(}}})", R"(}},"ranks":[{"rank":0,"loss":"x"}]})", "ranks[0].loss is not a number"},
      {R"(}}})", R"(}},"facts":[]})", "facts is not an object"},
      {R"(}}})", R"(}},"notes":["x"]})", "notes is not an object"},
  };
  for (const auto& c : cases) EXPECT_THAT(error_of(with(c.what, c.by)), HasSubstr(c.error)) << c.by;
}

std::string repeated(const std::string& piece, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + piece;
  return out;
}

TEST(Decode, ListsAndTextsMayBeAsLongAsTheirLimitAndNoLonger) {
  const auto exits = [](size_t n) {
    return with(R"("slots":1)", R"("slots":1,"exits":[)" + repeated(R"({"rank":1})", n) + "]");
  };
  EXPECT_TRUE(decode_agent_message(exits(kMaxExits)).ok());
  EXPECT_THAT(error_of(exits(kMaxExits + 1)), HasSubstr("longer than 4096 entries"));
  const auto ranks = [](size_t n) {
    return with("}}}", R"(}},"ranks":[)" + repeated(R"({"rank":1})", n) + "]}");
  };
  EXPECT_TRUE(decode_agent_message(ranks(kMaxRanksPerNode)).ok());
  EXPECT_THAT(error_of(ranks(kMaxRanksPerNode + 1)), HasSubstr("longer than 1024 entries"));
  const auto node = [](size_t n) {
    return with(R"("slots":1)", R"("slots":1,"node":")" + std::string(n, 'x') + "\"");
  };
  EXPECT_TRUE(decode_agent_message(node(gang::kMaxTextBytes)).ok());
  EXPECT_THAT(error_of(node(gang::kMaxTextBytes + 1)), HasSubstr("longer than 4096 bytes"));
  const auto facts = [](size_t n) {
    return with("}}}", R"(}},"facts":{"x":")" + std::string(n - 8, 'x') + "\"}}");
  };
  EXPECT_TRUE(decode_agent_message(facts(kMaxFactsBytes)).ok());
  EXPECT_FALSE(decode_agent_message(facts(kMaxFactsBytes + 1)).ok());
}

TEST(Decode, NullIsNotANumberAndNothingElse) {
  const auto message = decode_agent_message(with("}}}", R"(}},"ranks":[{"rank":0,"loss":null}]})"));
  ASSERT_TRUE(message.ok());
  EXPECT_TRUE(std::isnan(message->ranks[0].loss));
  EXPECT_FALSE(decode_agent_message(with("}}}", R"(}},"ranks":[{"rank":null}]})")).ok());
}

TEST(Decode, WhatIsNotJsonIsAnError) {
  for (const char* text :
       {"", "{", "[]", "null", "1", "\"x\"", "{}x", "\xff\xfe", "{\"v\":1}",
        "{\"v\":1,\"type\":\"agent\",\"report\":{\"node\":\"\xff\"}}", "{\"v\":1e999}"}) {
    EXPECT_FALSE(decode_agent_message(text).ok()) << text;
    EXPECT_FALSE(decode_coordinator_message(text).ok()) << text;
  }
  EXPECT_FALSE(decode_agent_message(std::string(1000, '\0')).ok());
}

TEST(Decode, DeepNestingAndHugeTextAreRefusedBeforeTheyAreParsed) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(error_of(deep), HasSubstr("nested too deeply"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_THAT(error_of(objects), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(std::string(kMaxMessageBytes + 1, ' ')), HasSubstr("is longer than"));
}

TEST(NestingDepth, CountsOutsideStringsOnly) {
  EXPECT_EQ(nesting_depth(R"({"a":"[[[[\"[[["})"), 1u);
  EXPECT_EQ(nesting_depth("[{}]]]]]{{{"), 3u);
  EXPECT_EQ(nesting_depth(""), 0u);
}

// A cut or damaged message is an error or a message that can be sent on. The fuzzer goes further.
TEST(Decode, TruncatedAndFlippedMessagesAreHandled) {
  const std::string whole = encode(RandomMessage(11).agent());
  for (size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_FALSE(decode_agent_message(whole.substr(0, size)).ok()) << size;
  }
  Rng rng(5);
  for (int i = 0; i < 500; ++i) {
    std::string flipped = whole;
    flipped[rng.below(flipped.size())] = static_cast<char>(rng.below(256));
    const auto result = decode_agent_message(flipped);
    EXPECT_TRUE(!result.ok() || decode_agent_message(encode(*result)).ok());
  }
}

}  // namespace
}  // namespace shanty::wire
