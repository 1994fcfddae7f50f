#include "agent/agent_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/count_fields.h"

namespace shanty {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(AgentSpec, EveryFieldIsHandedOver) {
  const json encoded = json::from_msgpack(encode_agent_spec({.injects = {Inject{}}}));
  EXPECT_EQ(encoded.size(), count_fields<AgentSpec>());
  EXPECT_EQ(encoded["injects"][0].size(), count_fields<Inject>());
}

TEST(AgentSpec, BytesThatAreNoTextSurvive) {
  const AgentSpec spec{.run_dir = "/tmp/\xff\xfe",
                       .nodes_here = 3,
                       .command = {"python", "caf\xe9", std::string("\xc3\x28\0x", 4)},
                       .injects = {{.kind = InjectKind::kSlow, .rank = 2, .factor = 1.1}}};
  const auto back = decode_agent_spec(encode_agent_spec(spec));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->run_dir, spec.run_dir);
  EXPECT_EQ(back->nodes_here, 3);
  EXPECT_EQ(back->command, spec.command);
  ASSERT_EQ(back->injects.size(), 1u);
  EXPECT_EQ(back->injects[0].kind, InjectKind::kSlow);
  EXPECT_EQ(back->injects[0].factor, 1.1);
}

TEST(AgentSpec, WhatIsNoSpecIsAnError) {
  for (const char* bad : {"", "{}", "\xc1", "\x93\x01"}) {
    EXPECT_FALSE(decode_agent_spec(bad).ok()) << bad;
  }
}

TEST(ParseInject, TakesEachKindWithItsKeys) {
  const auto kill = parse_inject("kill:rank=1,step=60,generation=2");
  ASSERT_TRUE(kill.ok());
  EXPECT_EQ(kill->rank, 1);
  EXPECT_EQ(kill->step, 60u);
  EXPECT_EQ(kill->generation, 2u);
  const auto cut = parse_inject("netcut:node=0,seconds=0.5");
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->node_rank, 0);
  EXPECT_EQ(cut->seconds, 0.5);
}

TEST(ParseInject, SaysWhatIsWrong) {
  for (const char* bad :
       {"", "kill", "kill:", "explode:rank=1", "kill:rank=-1", "kill:rank=x", "kill:rank=1,,",
        "kill:step=3", "netcut:step=3", "exit:rank=0,code=256", "slow:rank=0,factor=1",
        "slow:rank=0,factor=nan", "slow:rank=0,factor=inf", "netcut:node=0,seconds=0",
        "kill:rank=1,generation=0", "kill:rank=99999999999", "kill:rank=1 ,step=1"}) {
    const auto inject = parse_inject(bad);
    ASSERT_FALSE(inject.ok()) << bad;
    EXPECT_THAT(inject.error().message, HasSubstr("--inject"));
  }
}

}  // namespace
}  // namespace shanty
