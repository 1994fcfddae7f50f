#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace boost::asio::ssl {
class context;
}

namespace shanty::net {

// TLS 1.3 where both ends prove that they know the token: it is turned into an external
// pre-shared key, used with an ephemeral Diffie-Hellman exchange. There are no certificates, and
// a handshake without the key fails on both sides.
std::unique_ptr<boost::asio::ssl::context> make_tls_server_context(std::string_view token);
std::unique_ptr<boost::asio::ssl::context> make_tls_client_context(std::string_view token);

// True when the handshake that `ssl` (an SSL*) ended used the key. A client asks before it sends
// anything, so that no certificate can stand in for the key.
bool peer_proved_token(void* ssl);

// HKDF-SHA-256 of the token, 32 bytes; not the token, so that the one cannot be had from the other.
std::string derive_psk(std::string_view token);

}  // namespace shanty::net
