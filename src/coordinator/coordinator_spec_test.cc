#include "coordinator/coordinator_spec.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/count_fields.h"

namespace shanty {
namespace {

TEST(CoordinatorSpec, EveryFieldIsHandedOver) {
  const auto encoded = nlohmann::json::from_msgpack(encode_coordinator_spec({}));
  EXPECT_EQ(encoded.size(), count_fields<CoordinatorSpec>());
}

TEST(CoordinatorSpec, BytesThatAreNoTextSurvive) {
  const auto back = decode_coordinator_spec(
      encode_coordinator_spec({.run_dir = "/tmp/\xff", .port = 65535, .stop_reason = "\xc3"}));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->run_dir, "/tmp/\xff");
  EXPECT_EQ(back->port, 65535);
  EXPECT_EQ(back->stop_reason, "\xc3");
}

TEST(CoordinatorSpec, WhatIsNoSpecIsAnError) {
  for (const char* bad : {"", "{}", "\xc1", "\x93\x01"}) {
    EXPECT_FALSE(decode_coordinator_spec(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace shanty
