#include "net/https_trust.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>
#include <openssl/x509v3.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdlib>

namespace shanty::net {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

// Where systems keep their authorities; a static OpenSSL knows only the place of its own build.
constexpr const char* kAuthorityFiles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

Status trust_authorities(ssl::context& context, const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  X509_STORE* store = SSL_CTX_get_cert_store(context.native_handle());
  int count = 0;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(store, certificate);
    X509_free(certificate);
    ++count;
  }
  ERR_clear_error();
  if (count == 0) return Error{"the CA data hold no certificate in PEM form"};
  return {};
}

void trust_machine(ssl::context& context) {
  error_code ignored;
  context.set_default_verify_paths(ignored);
  if (std::getenv("SSL_CERT_FILE") != nullptr) return;
  for (const char* file : kAuthorityFiles) {
    error_code error;
    context.load_verify_file(file, error);
    if (!error) break;
  }
  ERR_clear_error();
}

Status use_identity(ssl::context& context, const HttpsTrust& trust) {
  if (trust.certificate_pem.empty() && trust.key_pem.empty()) return {};
  if (trust.certificate_pem.empty() || trust.key_pem.empty()) {
    return Error{"a client certificate needs its key, and a key its certificate"};
  }
  const std::string& key = trust.key_pem.reveal();
  error_code error;
  context.use_certificate_chain(boost::asio::buffer(trust.certificate_pem), error);
  if (error) return Error{"the client certificate cannot be read: " + error.message()};
  // The default callback would ask the terminal for the passphrase of an encrypted key.
  context.set_password_callback([](size_t, auto) { return std::string(); }, error);
  context.use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error) {
    return Error{"the client's key cannot be read, or is not that of its certificate: " +
                 error.message()};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ssl::context>> make_https_context(const HttpsTrust& trust) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(context->native_handle(), kHttp11, sizeof kHttp11 - 1);
  error_code ignored;
  context->set_verify_mode(trust.insecure ? ssl::verify_none : ssl::verify_peer, ignored);
  if (!trust.insecure) {
    if (trust.ca_pem.empty()) {
      trust_machine(*context);
    } else {
      TRY_STATUS(trust_authorities(*context, trust.ca_pem));
    }
  }
  TRY_STATUS(use_identity(*context, trust));
  return context;
}

bool expect_server_name(void* ssl, const std::string& name) {
  auto* connection = static_cast<SSL*>(ssl);
  X509_VERIFY_PARAM* param = SSL_get0_param(connection);
  if (X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str()) == 1) return true;
  ERR_clear_error();
  X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(param, name.c_str(), name.size()) == 1 &&
         SSL_ctrl(connection, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                  const_cast<char*>(name.c_str())) == 1;
}

std::string certificate_problem(void* ssl) {
  const auto* connection = static_cast<SSL*>(ssl);
  if ((SSL_get_verify_mode(connection) & SSL_VERIFY_PEER) == 0) return {};
  const long result = SSL_get_verify_result(connection);
  return result == X509_V_OK ? std::string() : X509_verify_cert_error_string(result);
}

}  // namespace shanty::net
