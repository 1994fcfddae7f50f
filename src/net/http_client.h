#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/http_connection.h"
#include "net/http_message.h"
#include "net/https_trust.h"

namespace shanty::net {

struct HttpLimits {
  Duration connect = std::chrono::seconds(10);     // see HttpConnection::open
  Duration write = std::chrono::seconds(30);       // to hand the request over
  Duration first_byte = std::chrono::seconds(60);  // from the request to the whole header
  Duration idle = std::chrono::seconds(30);        // between two pieces of the body
  size_t max_header_bytes = size_t{64} << 10;
  uint64_t max_body_bytes = uint64_t{256} << 20;  // kept in HttpAnswer::body
};

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";         // path and query, escaped
  std::vector<HttpHeader> headers;  // Host, Content-Length, Connection and User-Agent are ours
  std::string body;
  // Takes the body of a 2xx answer piece by piece, of any length; false ends the request.
  std::function<bool(std::string_view piece)> on_data;
  std::stop_token stop;                // ends the request from another thread
  std::optional<Duration> idle_limit;  // instead of HttpLimits::idle
};

struct HttpAnswer {
  HttpFailure failure = HttpFailure::kNone;
  std::string error;  // a sentence when failure is not kNone; shows no header and no body
  bool sent = false;  // the server may have seen the request
  int status = 0;     // 0: no header came
  std::vector<HttpHeader> headers;
  std::string body;

  bool whole() const { return failure == HttpFailure::kNone; }
};

// A client of one HTTP/1.1 server. Keeps connections for the next request. Neither redirects nor
// cookies nor compression. Any thread; each request blocks its own.
class HttpClient {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    bool tls = true;
    std::string server_name;  // empty: host
    HttpsTrust trust;
    std::optional<HttpProxy> proxy;
    HttpLimits limits;
  };

  // Fails when certificates or keys cannot be read. Connects nowhere yet.
  static Result<std::unique_ptr<HttpClient>> create(Options options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpAnswer request(const HttpRequest& request);

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty::net
