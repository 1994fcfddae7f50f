// Answers of an HTTP server, cut into pieces: no input may crash, pass a limit or go on for ever.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "net/http_response_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t step = 1 + data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  size_t body_bytes = 0;
  shanty::net::HttpResponseParser parser({.max_header_bytes = 1024, .max_body_bytes = 4096},
                                         [&](std::string_view piece) {
                                           body_bytes += piece.size();
                                           return true;
                                         });
  for (size_t i = 0; i < bytes.size() && !parser.done(); i += step) {
    if (parser.feed(bytes.substr(i, step)).failure != shanty::net::HttpFailure::kNone) return 0;
  }
  if (!parser.done()) static_cast<void>(parser.feed_end());
  CHECK(body_bytes <= 4096);
  CHECK(!parser.done() || parser.status() >= 100);
  return 0;
}
