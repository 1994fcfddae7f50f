#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/secret.h"

namespace boost::asio::ssl {
class context;
}

namespace shanty::net {

// Whom a client of HTTPS believes, and who it is itself. All of it PEM text.
struct HttpsTrust {
  std::string ca_pem;           // empty: the machine's own authorities
  std::string certificate_pem;  // the client's, its chain behind it; empty: none
  SecretText key_pem;
  bool insecure = false;  // takes any certificate: only where the user wrote so
};

// TLS 1.2 and later. Fails when a text is not what it should be; no error shows a key.
Result<std::unique_ptr<boost::asio::ssl::context>> make_https_context(const HttpsTrust& trust);

// Before the handshake of `ssl` (an SSL*): the server must prove to be `name`, a host name or a
// numeric address.
bool expect_server_name(void* ssl, const std::string& name);

// Why the certificate that `ssl` was shown did not verify; "" when that was not the matter.
std::string certificate_problem(void* ssl);

}  // namespace shanty::net
