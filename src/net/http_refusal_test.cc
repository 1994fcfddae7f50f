#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/test_support.h"

namespace shanty::net {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string answer_to(const std::string& request) {
  boost::asio::io_context io;
  TestServer server(io, {});
  Stranger stranger(server.server->port());
  stranger.send(request);
  EXPECT_TRUE(run_until(io, [&] { return stranger.closed(); }));
  EXPECT_TRUE(server.opened.empty());
  return stranger.received;
}

const std::string kUpgrade =
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

TEST(HttpRefusal, NoTokenGets401AndWhatToDo) {
  const std::string answer = answer_to(kUpgrade + "\r\n");
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 401 "));
  EXPECT_THAT(answer, HasSubstr("set SHANTY_TOKEN to the same secret on each node"));
}

TEST(HttpRefusal, PartOfTheTokenGets401) {
  const std::string part = kToken.substr(0, kToken.size() - 1);
  EXPECT_THAT(answer_to(kUpgrade + "Authorization: Bearer " + part + "\r\n\r\n"),
              HasSubstr("HTTP/1.1 401 "));
  EXPECT_THAT(answer_to(kUpgrade + "Authorization: Bearer\r\n\r\n"), HasSubstr("HTTP/1.1 401 "));
}

TEST(HttpRefusal, TheTokenIsNeverInAnAnswer) {
  EXPECT_THAT(answer_to(kUpgrade + "\r\n"), Not(HasSubstr(kToken)));
}

TEST(HttpRefusal, ABrowserWithTheTokenGets400) {
  EXPECT_THAT(
      answer_to("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + kToken + "\r\n\r\n"),
      HasSubstr("HTTP/1.1 400 "));
}

TEST(HttpRefusal, DataBehindTheHeaderIsNotAccepted) {
  const std::string request = kUpgrade + "Authorization: Bearer " + kToken + "\r\n\r\n";
  EXPECT_THAT(answer_to(request + "early data"), HasSubstr("HTTP/1.1 400 "));
}

TEST(HttpRefusal, AnUpgradeToAnotherVersionIsRefused) {
  std::string request = kUpgrade + "Authorization: Bearer " + kToken + "\r\n\r\n";
  request.replace(request.find("Version: 13"), 11, "Version: 99");
  EXPECT_THAT(answer_to(request), Not(HasSubstr("HTTP/1.1 101 ")));
}

}  // namespace
}  // namespace shanty::net
