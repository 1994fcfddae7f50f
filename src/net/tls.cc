#include "net/tls.h"

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>

#include "base/check.h"
#include "base/hash.h"

namespace shanty::net {
namespace {

namespace ssl = boost::asio::ssl;

constexpr std::string_view kIdentity = "shanty-job-v1";
constexpr std::string_view kSalt = "shanty token to TLS 1.3 external PSK, v1";
constexpr unsigned char kAes128GcmSha256[2] = {0x13, 0x01};

void free_key(void* /*parent*/, void* key, CRYPTO_EX_DATA* /*data*/, int /*index*/, long /*argl*/,
              void* /*argp*/) {
  delete static_cast<std::string*>(key);
}

int key_slot() {
  static const int slot = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_key);
  return slot;
}

const std::string& key_of(SSL* connection) {
  return *static_cast<std::string*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), key_slot()));
}

// A TLS 1.3 external PSK is handed to OpenSSL as a session. Null when memory is short.
SSL_SESSION* new_psk_session(SSL* connection) {
  const std::string& key = key_of(connection);
  const SSL_CIPHER* cipher = SSL_CIPHER_find(connection, kAes128GcmSha256);
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (cipher != nullptr && SSL_SESSION_set1_master_key(session, bytes, key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int find_session(SSL* connection, const unsigned char* identity, size_t size,
                 SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view given(reinterpret_cast<const char*>(identity), size);
  if (given != kIdentity) return 1;  // no such key: OpenSSL then fails for want of a certificate
  *session = new_psk_session(connection);
  return *session != nullptr ? 1 : 0;
}

int use_session(SSL* connection, const EVP_MD* /*digest*/, const unsigned char** identity,
                size_t* size, SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *session = new_psk_session(connection);
  return *session != nullptr ? 1 : 0;
}

std::unique_ptr<ssl::context> make_context(ssl::context::method method, std::string_view token) {
  auto context = std::make_unique<ssl::context>(method);
  SSL_CTX* native = context->native_handle();
  CHECK(SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1);
  CHECK(SSL_CTX_set_max_proto_version(native, TLS1_3_VERSION) == 1);
  CHECK(SSL_CTX_set_ciphersuites(native, "TLS_AES_128_GCM_SHA256") == 1);
  CHECK(SSL_CTX_set_num_tickets(native, 0) == 1);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  // A connection that is idle for a second gives its 34 kB of record buffers back.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  // No trusted certificate exists, so a server that offers one instead of the key is refused.
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  CHECK(SSL_CTX_set_ex_data(native, key_slot(), new std::string(derive_psk(token))) == 1);
  return context;
}

}  // namespace

std::string derive_psk(std::string_view token) {
  const std::string extracted = hmac_sha256(kSalt, token);
  return hmac_sha256(extracted, std::string(kIdentity) + '\x01');
}

std::unique_ptr<ssl::context> make_tls_server_context(std::string_view token) {
  auto context = make_context(ssl::context::tls_server, token);
  // Asking a peer for a certificate is not allowed with a PSK, and none is wanted.
  SSL_CTX_set_verify(context->native_handle(), SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_psk_find_session_callback(context->native_handle(), find_session);
  return context;
}

std::unique_ptr<ssl::context> make_tls_client_context(std::string_view token) {
  auto context = make_context(ssl::context::tls_client, token);
  SSL_CTX_set_psk_use_session_callback(context->native_handle(), use_session);
  return context;
}

bool peer_proved_token(void* ssl_connection) {
  auto* connection = static_cast<SSL*>(ssl_connection);
  return SSL_session_reused(connection) == 1 && SSL_version(connection) == TLS1_3_VERSION;
}

}  // namespace shanty::net
