#include "net/ws_stream.h"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <deque>
#include <optional>
#include <type_traits>

#include "base/hash.h"
#include "net/tls.h"

namespace shanty::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using TlsLayer = beast::ssl_stream<tcp::socket>;

constexpr size_t kKeptBufferBytes = size_t{64} << 10;
constexpr size_t kMaxReasonBytes = 123;  // of a close frame
constexpr int kPeerAlertOffset = 1000;   // OpenSSL numbers the alerts of the other end from here
constexpr const char* kNotOurs =
    "this port belongs to a shanty coordinator, which speaks WebSocket to the agents of its job\n";
constexpr const char* kWrongToken =
    "wrong or missing token: set SHANTY_TOKEN to the same secret on each node\n";

bool is_tls_error(const error_code& error) {
  return error.category() == asio::error::get_ssl_category();
}

std::string handshake_error(const error_code& error) {
  if (error == asio::error::eof || error == http::error::end_of_stream ||
      error == asio::ssl::error::stream_truncated) {
    return "the connection was closed during the handshake";
  }
  return error.message();
}

std::string cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return std::string(text.substr(0, limit));
}

template <typename Layer>
class Stream final : public WsStream, public std::enable_shared_from_this<Stream<Layer>> {
 public:
  template <typename... Args>
  Stream(bool server, Options options, Events events, Args&&... args)
      : server_(server),
        options_(std::move(options)),
        events_(std::move(events)),
        ws_(std::forward<Args>(args)...),
        limit_(ws_.get_executor()) {
    ws_.read_message_max(options_.max_message_bytes);
    ws_.auto_fragment(false);
    ws_.text(true);
    // Our own timer limits each phase; Beast's would only repeat it.
    websocket::stream_base::timeout none{websocket::stream_base::none(),
                                         websocket::stream_base::none(), false};
    ws_.set_option(none);
  }

  void start() override {
    arm(options_.handshake_limit, "the handshake did not end in time");
    if constexpr (std::is_same_v<Layer, TlsLayer>) {
      const auto side = server_ ? asio::ssl::stream_base::server : asio::ssl::stream_base::client;
      ws_.next_layer().async_handshake(side, on(&Stream::secured));
    } else {
      upgrade();
    }
  }

  bool send(std::string message) override {
    if (!open_ || closing_ || ended_) return false;
    queued_bytes_ += message.size();
    if (queued_bytes_ > options_.max_queued_bytes) {
      end({"the other end reads too slowly: " + std::to_string(queued_bytes_) + " bytes wait"});
      return false;
    }
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) write();
    return true;
  }

  void close(std::string_view reason) override {
    if (closing_ || ended_) return;
    close_reason_ = reason;
    if (!open_) return end({close_reason_});
    closing_ = true;
    if (queue_.empty()) return say_goodbye();
    arm(kFlushLimit, "");
  }

  void drop() override {
    dropped_ = true;
    ended_ = true;
    cut_connection();
  }

 private:
  // A completion handler that keeps this alive and is not called after the end.
  template <typename... Args>
  auto on(void (Stream::*method)(error_code, Args...)) {
    return [self = this->shared_from_this(), method](error_code error, Args... args) {
      if (!self->ended_) (self.get()->*method)(error, args...);
    };
  }

  void arm(Duration duration, std::string what) {
    limit_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration));
    limit_.async_wait([self = this->shared_from_this(), what = std::move(what)](error_code error) {
      if (error || self->ended_) return;
      self->end({self->closing_ ? self->close_reason_ : what});
    });
  }

  void cut_connection() {
    error_code ignored;
    limit_.cancel();
    beast::get_lowest_layer(ws_).close(ignored);
  }

  void end(WsEnd how) {
    if (ended_) return;
    ended_ = true;
    cut_connection();
    asio::post(ws_.get_executor(), [self = this->shared_from_this(), how = std::move(how)] {
      if (!self->dropped_) self->events_.ended(how);
    });
  }

  void secured(error_code error) {
    if constexpr (std::is_same_v<Layer, TlsLayer>) {
      const bool alert =
          is_tls_error(error) &&
          ERR_GET_REASON(static_cast<unsigned long>(error.value())) >= kPeerAlertOffset;
      if (error && server_) return end({"no proof of the token: " + handshake_error(error)});
      if (alert) return end({"refused the token", true});
      if (is_tls_error(error))
        return end({"is not the coordinator of this job: " + error.message(), true});
      if (error) return end({handshake_error(error)});
      if (!peer_proved_token(ws_.next_layer().native_handle())) {
        return end({"does not know the token of this job", true});
      }
    } else if (error) {
      return end({handshake_error(error)});
    }
    upgrade();
  }

  void upgrade() { server_ ? read_request() : request_upgrade(); }

  // --- the server's half of the handshake ---

  void read_request() {
    request_.emplace();
    request_->header_limit(kMaxHandshakeBytes / 2);
    http::async_read_header(ws_.next_layer(), handshake_buffer_, *request_,
                            on(&Stream::judge_request));
  }

  void judge_request(error_code error, size_t /*bytes*/) {
    if (error) return end({"no valid request: " + handshake_error(error)});
    const auto& request = request_->get();
    const std::string expected = "Bearer " + options_.token;
    const auto given = request[http::field::authorization];
    if (!equal_constant_time({given.data(), given.size()}, expected)) {
      return refuse(http::status::unauthorized, kWrongToken, "wrong or missing token");
    }
    if (!websocket::is_upgrade(request) || handshake_buffer_.size() != 0) {
      return refuse(http::status::bad_request, kNotOurs, "not a WebSocket request");
    }
    ws_.async_accept(request, on(&Stream::opened));
  }

  void refuse(http::status status, const char* text, const char* reason) {
    close_reason_ = reason;
    response_ = {status, 11, text};
    response_.set(http::field::content_type, "text/plain; charset=utf-8");
    response_.keep_alive(false);
    response_.prepare_payload();
    http::async_write(ws_.next_layer(), response_, on(&Stream::refused));
  }

  void refused(error_code /*error*/, size_t /*bytes*/) { end({close_reason_}); }

  // --- the client's half ---

  void request_upgrade() {
    ws_.set_option(websocket::stream_base::decorator([token = options_.token](auto& request) {
      request.set(http::field::authorization, "Bearer " + token);
      request.set(http::field::user_agent, "shanty/" SHANTY_VERSION);
    }));
    ws_.async_handshake(answer_, options_.host_header, "/", on(&Stream::judge_answer));
  }

  void judge_answer(error_code error) {
    if (error == websocket::error::upgrade_declined &&
        answer_.result() == http::status::unauthorized) {
      return end({"refused the token", true});
    }
    const bool closed =
        error == http::error::end_of_stream || error == http::error::partial_message;
    const bool not_http = error && error.category() == make_error_code(http::error{}).category();
    const bool not_ours =
        error && error.category() == make_error_code(websocket::error{}).category();
    if ((not_http && !closed) || not_ours) {
      return end({"is not the coordinator of a job: " + error.message(), true});
    }
    opened(error);
  }

  // --- both ---

  void opened(error_code error) {
    if (error) return end({handshake_error(error)});
    request_.reset();
    answer_ = {};
    handshake_buffer_.clear();
    handshake_buffer_.shrink_to_fit();
    open_ = true;
    limit_.cancel();
    if (options_.idle_limit > Duration::zero()) arm(options_.idle_limit, "no message in time");
    read();
    events_.opened();
  }

  void read() { ws_.async_read(message_, on(&Stream::have_read)); }

  void have_read(error_code error, size_t /*bytes*/) {
    if (error) return end({closing_ ? close_reason_ : read_error(error)});
    if (!closing_) {
      if (options_.idle_limit > Duration::zero()) arm(options_.idle_limit, "no message in time");
      events_.message({static_cast<const char*>(message_.cdata().data()), message_.size()});
      if (ended_) return;
    }
    message_.clear();
    if (message_.capacity() > kKeptBufferBytes) message_.shrink_to_fit();
    read();
  }

  std::string read_error(const error_code& error) {
    if (error == websocket::error::message_too_big || error == websocket::error::buffer_overflow) {
      return "a message is larger than " + std::to_string(options_.max_message_bytes) + " bytes";
    }
    // Over TLS, Beast hides its own error behind that of the shutdown which it starts.
    if (is_tls_error(error) && ERR_GET_REASON(static_cast<unsigned long>(error.value())) ==
                                   SSL_R_APPLICATION_DATA_AFTER_CLOSE_NOTIFY) {
      return "a message is larger than " + std::to_string(options_.max_message_bytes) +
             " bytes or breaks the protocol";
    }
    if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
      return "the connection was cut";
    }
    if (error != websocket::error::closed) return error.message();
    const auto& why = ws_.reason().reason;
    if (why.empty()) return "closed by the other end";
    return "closed by the other end: " + std::string(why.data(), why.size());
  }

  void write() { ws_.async_write(asio::buffer(queue_.front()), on(&Stream::have_written)); }

  void have_written(error_code error, size_t /*bytes*/) {
    if (error) return end({closing_ ? close_reason_ : error.message()});
    queued_bytes_ -= queue_.front().size();
    queue_.pop_front();
    if (!queue_.empty()) return write();
    if (closing_) say_goodbye();
  }

  void say_goodbye() {
    arm(kCloseLimit, "");
    const std::string text = cut(close_reason_, kMaxReasonBytes);
    websocket::close_reason reason(websocket::close_code::normal);
    reason.reason.assign(text.data(), text.size());
    ws_.async_close(reason, on(&Stream::closed));
  }

  void closed(error_code /*error*/) { end({close_reason_}); }

  const bool server_;
  const Options options_;
  Events events_;
  websocket::stream<Layer> ws_;
  asio::steady_timer limit_;
  beast::flat_buffer handshake_buffer_{kMaxHandshakeBytes};
  std::optional<http::request_parser<http::empty_body>> request_;
  http::response<http::string_body> response_;
  websocket::response_type answer_;
  beast::flat_buffer message_;
  std::deque<std::string> queue_;
  size_t queued_bytes_ = 0;
  std::string close_reason_;
  bool open_ = false;
  bool closing_ = false;
  bool ended_ = false;
  bool dropped_ = false;
};

std::shared_ptr<WsStream> make_stream(bool server, tcp::socket socket, WsStream::Options options,
                                      WsStream::Events events) {
  if (options.tls == nullptr) {
    return std::make_shared<Stream<tcp::socket>>(server, std::move(options), std::move(events),
                                                 std::move(socket));
  }
  asio::ssl::context& tls = *options.tls;
  return std::make_shared<Stream<TlsLayer>>(server, std::move(options), std::move(events),
                                            std::move(socket), tls);
}

}  // namespace

std::shared_ptr<WsStream> WsStream::accepted(tcp::socket socket, Options options, Events events) {
  return make_stream(true, std::move(socket), std::move(options), std::move(events));
}

std::shared_ptr<WsStream> WsStream::connected(tcp::socket socket, Options options, Events events) {
  return make_stream(false, std::move(socket), std::move(options), std::move(events));
}

}  // namespace shanty::net
