#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "net/address.h"

namespace shanty::net {
namespace {

// Rank 0 of each pair of arguments (port, use_libuv) binds and listens as torch does.
constexpr const char* kScript = R"(
import sys
from datetime import timedelta
from torch.distributed import TCPStore
for port, libuv in zip(sys.argv[1::2], sys.argv[2::2]):
    store = TCPStore("127.0.0.1", int(port), world_size=1, is_master=True,
                     timeout=timedelta(seconds=30), use_libuv=libuv == "1")
    store.set("key", "value")
    assert store.get("key") == b"value" and store.port == int(port)
)";

std::string python_with_torch() {
  if (const char* given = std::getenv("SHANTY_TEST_PYTHON")) return given;
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  return root / "build/venv/bin/python";
}

TEST(ReservePort, TorchListensOnItWhileItIsHeld) {
  const std::string python = python_with_torch();
  if (access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << python;
  std::vector<ReservedPort> held;
  std::string command = "'" + python + "' -c '" + kScript + "'";
  for (const bool ipv4_only : {false, true}) {
    for (const char* libuv : {"1", "0"}) {
      auto reserved = ipv4_only ? reserve_ipv4_port() : reserve_port();
      ASSERT_TRUE(reserved.ok());
      command += " " + std::to_string(reserved->port) + " " + libuv;
      held.push_back(std::move(*reserved));
    }
  }
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace
}  // namespace shanty::net
