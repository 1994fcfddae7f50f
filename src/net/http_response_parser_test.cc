#include "net/http_response_parser.h"

#include <gtest/gtest.h>

namespace shanty::net {
namespace {

struct Read {
  HttpFailure failure = HttpFailure::kNone;
  std::string what;
  std::string body;
  int status = 0;
  bool done = false;
  bool keeps_alive = false;
};

Read read(std::string_view bytes, size_t step, HttpResponseParser::Options options = {},
          bool ends = false) {
  Read out;
  HttpResponseParser parser(options, [&](std::string_view piece) {
    out.body += piece;
    return true;
  });
  for (size_t i = 0; i < bytes.size() && out.failure == HttpFailure::kNone; i += step) {
    const auto problem = parser.feed(bytes.substr(i, step));
    out.failure = problem.failure;
    out.what = problem.what;
    if (parser.done()) break;
  }
  if (ends && out.failure == HttpFailure::kNone) out.failure = parser.feed_end().failure;
  out.status = parser.status();
  out.done = parser.done();
  out.keeps_alive = parser.keeps_alive();
  return out;
}

TEST(HttpResponseParser, ReadsABodyOfAKnownLengthHoweverItIsCut) {
  for (const size_t step : {1, 2, 7, 1000}) {
    const Read got = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", step);
    EXPECT_EQ(got.failure, HttpFailure::kNone) << got.what;
    EXPECT_EQ(got.body, "hello");
    EXPECT_EQ(got.status, 200);
    EXPECT_TRUE(got.done);
    EXPECT_TRUE(got.keeps_alive);
  }
}

TEST(HttpResponseParser, UndoesChunksAndSkipsTrailers) {
  for (const size_t step : {1, 3, 1000}) {
    const Read got = read(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-After: 1\r\n\r\n",
        step);
    EXPECT_EQ(got.body, "hello world") << step;
    EXPECT_TRUE(got.done);
  }
}

TEST(HttpResponseParser, SkipsInterimAnswersUpToALimit) {
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  const Read got = read(interim + interim + "HTTP/1.1 204 No Content\r\n\r\n", 1000);
  EXPECT_EQ(got.status, 204);
  EXPECT_TRUE(got.done);
  std::string many;
  for (int i = 0; i < 20; ++i) many += interim;
  EXPECT_EQ(read(many, 1000).failure, HttpFailure::kProtocol);
}

TEST(HttpResponseParser, TellsAnEndInTheMiddleFromOneThatEndsTheBody) {
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", 1000, {}, true).failure,
            HttpFailure::kClosed);
  EXPECT_EQ(read("HTTP/1.1 200 O", 1000, {}, true).failure, HttpFailure::kClosed);
  EXPECT_EQ(read("", 1, {}, true).failure, HttpFailure::kClosed);
  const Read until_end = read("HTTP/1.0 200 OK\r\n\r\nall of it", 1000, {}, true);
  EXPECT_EQ(until_end.failure, HttpFailure::kNone);
  EXPECT_EQ(until_end.body, "all of it");
  EXPECT_FALSE(until_end.keeps_alive);
}

TEST(HttpResponseParser, RefusesWhatIsNotHttp) {
  for (const char* text :
       {"SSH-2.0-OpenSSH_9.2\r\n", "\x15\x03\x01 binary \r\n\r\n", "HTTP/1.1 twohundred OK\r\n\r\n",
        "HTTP/3.7 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    EXPECT_EQ(read(text, 1000).failure, HttpFailure::kProtocol) << text;
  }
}

TEST(HttpResponseParser, HasLimits) {
  const std::string big = "HTTP/1.1 200 OK\r\nX: " + std::string(5000, 'x') + "\r\n\r\n";
  EXPECT_EQ(read(big, 100, {.max_header_bytes = 1024}).failure, HttpFailure::kTooLarge);
  EXPECT_EQ(
      read("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 1000, {.max_body_bytes = 99}).failure,
      HttpFailure::kTooLarge);
  std::string many = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 300; ++i) many += "X: y\r\n";
  EXPECT_EQ(read(many + "\r\n", 1000).failure, HttpFailure::kTooLarge);
}

TEST(HttpResponseParser, DoesNotKeepAConnectionOnWhichTooMuchCame) {
  EXPECT_FALSE(
      read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200", 1000).keeps_alive);
  EXPECT_FALSE(
      read("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 1000).keeps_alive);
}

TEST(HttpHeaders, AreFoundWhateverTheirCase) {
  const std::vector<HttpHeader> headers = {{"retry-after", "3"}, {"Retry-After", "4"}};
  EXPECT_EQ(find_header(headers, "Retry-After"), "3");
  EXPECT_EQ(find_header(headers, "Retry"), "");
}

}  // namespace
}  // namespace shanty::net
