#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shanty::net {

struct HttpHeader {
  std::string name;
  std::string value;
};

// The value of the first header of that name, case aside; "" when there is none.
std::string_view find_header(const std::vector<HttpHeader>& headers, std::string_view name);

// Why there is no whole answer.
enum class HttpFailure {
  kNone,
  kRequest,   // it cannot be sent as it is
  kResolve,   // the host has no address
  kConnect,   // nobody answers there
  kProxy,     // the proxy will not
  kTls,       // no trust, or no TLS at all
  kTimeout,   // a limit passed
  kClosed,    // the connection ended before the answer did
  kProtocol,  // what came is not HTTP/1.1 as it should be
  kTooLarge,  // the answer is larger than allowed
  kStopped,   // the caller does not want it any more
};

}  // namespace shanty::net
