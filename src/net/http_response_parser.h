#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace shanty::net {

// Reads one HTTP/1.x answer from bytes as they come. No socket, no clock, no thread.
class HttpResponseParser {
 public:
  struct Options {
    size_t max_header_bytes = size_t{64} << 10;
    uint64_t max_body_bytes = uint64_t{256} << 20;
    bool no_body = false;  // the answer to CONNECT or HEAD
  };
  // Called after the header for each piece of the body, chunking undone. False: stop.
  using OnBody = std::function<bool(std::string_view piece)>;

  HttpResponseParser(Options options, OnBody on_body);
  ~HttpResponseParser();
  HttpResponseParser(HttpResponseParser&&) noexcept;
  HttpResponseParser& operator=(HttpResponseParser&&) = delete;

  struct Problem {
    HttpFailure failure = HttpFailure::kNone;
    std::string what;  // "is not HTTP: bad version"
  };
  // Takes all of `bytes`. Not again after a problem or after done().
  Problem feed(std::string_view bytes);
  // The connection ended: fine for a body that ends with it, a problem otherwise.
  Problem feed_end();

  bool header_done() const;
  bool done() const;
  int status() const;  // 0 before the header is done
  const std::vector<HttpHeader>& headers() const;
  // The connection can carry another request; false also when bytes came after the answer.
  bool keeps_alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty::net
