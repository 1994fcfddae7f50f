#include "net/http_client.h"

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <mutex>
#include <utility>

#include "net/address.h"
#include "net/http_response_parser.h"

namespace shanty::net {
namespace {

constexpr size_t kMaxIdleConnections = 8;
constexpr Duration kMaxIdleTime = std::chrono::seconds(60);

bool is_clean(std::string_view text, bool blanks_allowed) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 127 || (byte == ' ' && !blanks_allowed)) return false;
  }
  return true;
}

bool is_sendable(const HttpRequest& request) {
  bool clean = is_clean(request.method, false) && is_clean(request.target, false) &&
               request.target.starts_with('/') && !request.method.empty();
  for (const HttpHeader& header : request.headers) {
    clean = clean && !header.name.empty() && is_clean(header.name, false) &&
            header.name.find(':') == std::string::npos && is_clean(header.value, true);
  }
  return clean;
}

HttpAnswer no_answer(const HttpEnd& end, bool sent) {
  HttpAnswer answer;
  answer.failure = end.failure;
  answer.error = end.error;
  answer.sent = sent;
  return answer;
}

}  // namespace

struct HttpClient::Impl {
  struct Kept {
    std::unique_ptr<HttpConnection> connection;
    TimePoint since;
  };

  HttpTarget target() const {
    return {.host = options.host,
            .port = options.port,
            .tls = tls.get(),
            .server_name = options.server_name.empty() ? options.host : options.server_name,
            .proxy = options.proxy};
  }

  std::unique_ptr<HttpConnection> take_kept() {
    const std::lock_guard lock(mutex);
    while (!kept.empty()) {
      Kept last = std::move(kept.back());
      kept.pop_back();
      const bool young = system_clock().now() - last.since < kMaxIdleTime;
      if (young && last.connection->is_quiet()) return std::move(last.connection);
    }
    return nullptr;
  }

  void keep(std::unique_ptr<HttpConnection> connection) {
    const std::lock_guard lock(mutex);
    if (kept.size() < kMaxIdleConnections) {
      kept.push_back({std::move(connection), system_clock().now()});
    }
  }

  std::string header_text(const HttpRequest& request) const {
    const bool usual_port = options.port == (options.tls ? 443 : 80);
    std::string where = join_host_port(options.host, options.port);
    if (usual_port) where.resize(where.rfind(':'));
    std::string text = request.method + " " + request.target + " HTTP/1.1\r\nHost: " + where +
                       "\r\nUser-Agent: shanty/" SHANTY_VERSION "\r\n";
    for (const HttpHeader& header : request.headers) {
      text += header.name + ": " + header.value + "\r\n";
    }
    if (!request.body.empty() || request.method != "GET") {
      text += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
    }
    return text + "\r\n";
  }

  // `worn_out`: the kept connection had ended, and nothing of an answer came.
  HttpAnswer exchange(HttpConnection& connection, const HttpRequest& request, bool& worn_out,
                      bool& reusable) {
    HttpAnswer answer;
    HttpResponseParser* reading = nullptr;
    const bool streams = static_cast<bool>(request.on_data);
    bool too_large = false;
    const auto on_body = [&](std::string_view piece) {
      if (streams && reading->status() / 100 == 2) return request.on_data(piece);
      if (answer.body.size() + piece.size() > options.limits.max_body_bytes) {
        too_large = true;
        return false;
      }
      answer.body.append(piece);
      return true;
    };
    HttpResponseParser parser(
        {.max_header_bytes = options.limits.max_header_bytes,
         .max_body_bytes = streams ? UINT64_MAX : options.limits.max_body_bytes},
        on_body);
    reading = &parser;
    HttpEnd end =
        connection.write(header_text(request) + request.body, options.limits.write, request.stop);
    worn_out = end.failure == HttpFailure::kClosed;
    answer.sent = true;
    const TimePoint header_deadline = system_clock().now() + options.limits.first_byte;
    const Duration idle = request.idle_limit.value_or(options.limits.idle);
    std::string bytes;
    bool nothing_came = true;
    while (end.ok() && !parser.done()) {
      const Duration limit = parser.header_done()
                                 ? idle
                                 : std::max(Duration(0), header_deadline - system_clock().now());
      end = connection.read(bytes, limit, request.stop);
      if (!end.ok()) {
        worn_out = nothing_came && end.failure == HttpFailure::kClosed;
        break;
      }
      worn_out = nothing_came && bytes.empty();
      nothing_came = false;
      const auto problem = bytes.empty() ? parser.feed_end() : parser.feed(bytes);
      if (too_large) {
        end = {HttpFailure::kTooLarge, "the answer is larger than " +
                                           std::to_string(options.limits.max_body_bytes) +
                                           " bytes"};
      } else if (problem.failure != HttpFailure::kNone) {
        end = {problem.failure, "the answer " + problem.what};
      }
      if (parser.header_done() && end.ok()) end = judge_encoding(parser);
    }
    if (parser.header_done()) {
      answer.status = parser.status();
      answer.headers = parser.headers();
    }
    answer.failure = end.failure;
    answer.error = end.error;
    reusable = end.ok() && parser.keeps_alive();
    return answer;
  }

  static HttpEnd judge_encoding(const HttpResponseParser& parser) {
    const std::string_view encoding = find_header(parser.headers(), "Content-Encoding");
    if (encoding.empty() || encoding == "identity") return {};
    return {HttpFailure::kProtocol, "the answer is encoded, which was not asked for"};
  }

  HttpAnswer request(const HttpRequest& request) {
    if (!is_sendable(request)) {
      return no_answer({HttpFailure::kRequest,
                        "a request line or header has characters that HTTP "
                        "cannot carry (a line break in a token?)"},
                       false);
    }
    // A kept connection may end at the moment it is used again: then a new one gets its turn. A
    // POST is not repeated, since the server may have acted on it.
    if (auto connection = request.method == "POST" ? nullptr : take_kept()) {
      bool worn_out = false;
      HttpAnswer answer = exchange_and_keep(std::move(connection), request, worn_out);
      if (!worn_out) return answer;
    }
    auto connection = std::make_unique<HttpConnection>(target());
    const HttpEnd opened = connection->open(options.limits.connect, request.stop);
    if (!opened.ok()) return no_answer(opened, false);
    bool ignored = false;
    return exchange_and_keep(std::move(connection), request, ignored);
  }

  HttpAnswer exchange_and_keep(std::unique_ptr<HttpConnection> connection,
                               const HttpRequest& request, bool& worn_out) {
    bool reusable = false;
    HttpAnswer answer = exchange(*connection, request, worn_out, reusable);
    if (reusable) keep(std::move(connection));
    if (!answer.whole()) {
      answer.error =
          request.method + " " + join_host_port(options.host, options.port) + ": " + answer.error;
    }
    return answer;
  }

  Options options;
  std::unique_ptr<boost::asio::ssl::context> tls;
  std::mutex mutex;
  std::vector<Kept> kept;
};

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::create(Options options) {
  auto impl = std::make_unique<Impl>();
  if (options.tls) impl->tls = TRY(make_https_context(options.trust));
  impl->options = std::move(options);
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(impl)));
}

HttpAnswer HttpClient::request(const HttpRequest& request) { return impl_->request(request); }

}  // namespace shanty::net
