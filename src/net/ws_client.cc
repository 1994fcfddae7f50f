#include "net/ws_client.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "base/random.h"
#include "net/address.h"
#include "net/tls.h"
#include "net/ws_stream.h"

namespace shanty::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr int kMaxBackoffDoublings = 20;

uint64_t random_seed() {
  uint64_t seed = 0;
  const std::string bytes = secure_random_bytes(sizeof seed);
  std::memcpy(&seed, bytes.data(), sizeof seed);
  return seed;
}

auto to_timer(Duration duration) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(duration);
}

}  // namespace

// One attempt walks through the addresses of the host; an attempt that found no coordinator at any
// of them waits and begins anew.
struct WsClient::Impl : std::enable_shared_from_this<WsClient::Impl> {
  Impl(asio::io_context& io_context, Options&& given, Handlers&& wanted)
      : io(io_context),
        options(std::move(given)),
        handlers(std::move(wanted)),
        resolver(io_context),
        socket(io_context),
        timer(io_context),
        rng(random_seed()) {
    if (options.tls) tls = make_tls_client_context(options.token);
  }

  // A completion handler that keeps this alive and does nothing once another attempt has begun or
  // the client has stopped.
  template <typename... Args>
  auto on(void (Impl::*method)(const error_code&, Args...)) {
    return [self = shared_from_this(), method, now = turn](const error_code& error, auto... args) {
      if (self->turn == now && !self->stopped) (self.get()->*method)(error, args...);
    };
  }

  void attempt();
  void resolved(const error_code& error, tcp::resolver::results_type results);
  void try_address();
  void connected(const error_code& error);
  void connect_timed_out(const error_code& cancelled);
  void handshake();
  void opened();
  void ended(const WsEnd& how);
  void failed(const std::string& why, bool refused);
  void retry();
  void wait_then_attempt(Duration duration);
  void waited(const error_code& cancelled);
  void cut();
  std::string where() const { return join_host_port(options.host, options.port); }
  WsStream::Options stream_options() const;

  asio::io_context& io;
  const Options options;
  const Handlers handlers;
  std::unique_ptr<asio::ssl::context> tls;
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
  Rng rng;
  std::vector<tcp::endpoint> addresses;
  size_t next_address = 0;
  std::shared_ptr<WsStream> stream;  // shared with its operations in flight
  std::string local_address;
  std::string last_error;
  std::string refusal;       // of this attempt
  std::string told_refusal;  // the one the user knows
  int failures = 0;          // attempts since the last connection
  uint64_t turn = 0;
  bool open = false;
  bool stopped = false;
  std::function<void()> done;
};

void WsClient::Impl::attempt() {
  ++turn;
  refusal.clear();
  addresses.clear();
  next_address = 0;
  error_code not_numeric;
  const auto address = asio::ip::make_address(options.host, not_numeric);
  if (!not_numeric) {
    addresses.emplace_back(address, options.port);
    return try_address();
  }
  resolver.async_resolve(options.host, std::to_string(options.port),
                         on<tcp::resolver::results_type>(&Impl::resolved));
}

void WsClient::Impl::resolved(const error_code& error, tcp::resolver::results_type results) {
  if (error) last_error = "cannot resolve \"" + options.host + "\": " + error.message();
  for (const auto& entry : results) addresses.push_back(entry.endpoint());
  try_address();
}

void WsClient::Impl::try_address() {
  if (next_address >= addresses.size()) return retry();
  const tcp::endpoint endpoint = addresses[next_address++];
  error_code error;
  socket = tcp::socket(io);
  socket.open(endpoint.protocol(), error);
  if (error) return failed(error.message(), false);
  prepare_socket(socket);
  timer.expires_after(to_timer(options.connect_limit));
  timer.async_wait(on<>(&Impl::connect_timed_out));
  socket.async_connect(endpoint, on<>(&Impl::connected));
}

void WsClient::Impl::connect_timed_out(const error_code& cancelled) {
  if (cancelled) return;
  ++turn;
  failed("no answer", false);
}

void WsClient::Impl::connected(const error_code& error) {
  ++turn;
  timer.cancel();
  if (error) return failed(error.message(), false);
  error_code ignored;
  const auto local = socket.local_endpoint(ignored);
  // TCP can connect a port of this machine with itself where nobody listens.
  if (local == socket.remote_endpoint(ignored)) return failed("connection refused", false);
  local_address = local.address().to_string();
  handshake();
}

WsStream::Options WsClient::Impl::stream_options() const {
  return {.token = options.token,
          .tls = tls.get(),
          .host_header = where(),
          .max_message_bytes = options.max_message_bytes,
          .max_queued_bytes = options.max_queued_bytes,
          .handshake_limit = options.connect_limit,
          .idle_limit = Duration::zero()};
}

void WsClient::Impl::handshake() {
  const std::weak_ptr<Impl> weak = weak_from_this();
  WsStream::Events events;
  events.opened = [weak] {
    if (const auto self = weak.lock()) self->opened();
  };
  events.message = [weak](std::string_view text) {
    const auto self = weak.lock();
    if (self && !self->stopped && self->handlers.on_message) self->handlers.on_message(text);
  };
  events.ended = [weak](const WsEnd& how) {
    if (const auto self = weak.lock()) self->ended(how);
  };
  stream = WsStream::connected(std::move(socket), stream_options(), std::move(events));
  stream->start();
}

void WsClient::Impl::opened() {
  if (stopped) return;
  open = true;
  failures = 0;
  last_error.clear();
  told_refusal.clear();
  if (handlers.on_open) handlers.on_open();
}

void WsClient::Impl::ended(const WsEnd& how) {
  stream.reset();
  local_address.clear();
  if (stopped) {
    if (done) std::exchange(done, {})();
    return;
  }
  if (!std::exchange(open, false)) return failed(how.reason, how.refused);
  last_error = where() + ": " + how.reason;
  const uint64_t now = turn;
  const std::shared_ptr<Impl> keep = shared_from_this();  // the handler may destroy the client
  if (handlers.on_close) handlers.on_close(how.reason);
  if (!stopped && turn == now) retry();
}

void WsClient::Impl::failed(const std::string& why, bool refused) {
  error_code ignored;
  socket.close(ignored);
  last_error = where() + ": " + why;
  if (refused && why == "refused the token") {
    refusal = "the coordinator at " + where() +
              " refused the token: set SHANTY_TOKEN to the same secret on each node";
  } else if (refused) {
    refusal = "what answers at " + where() + " " + why;
  }
  try_address();
}

void WsClient::Impl::retry() {
  if (refusal.empty()) {
    const int doublings = std::min(failures++, kMaxBackoffDoublings);
    const Duration backoff = options.backoff_min * (int64_t{1} << doublings);
    const double part = 0.5 + 0.5 * rng.uniform();
    const auto limited = static_cast<double>(std::min(backoff, options.backoff_max).count());
    return wait_then_attempt(Duration(static_cast<int64_t>(limited * part)));
  }
  last_error = refusal;
  wait_then_attempt(options.rejected_backoff);
  if (std::exchange(told_refusal, refusal) == refusal || !handlers.on_rejected) return;
  const std::string told = refusal;
  handlers.on_rejected(told);
}

void WsClient::Impl::wait_then_attempt(Duration duration) {
  ++turn;
  timer.expires_after(to_timer(duration));
  timer.async_wait(on<>(&Impl::waited));
}

void WsClient::Impl::waited(const error_code& cancelled) {
  if (!cancelled) attempt();
}

void WsClient::Impl::cut() {
  ++turn;
  timer.cancel();
  resolver.cancel();
  error_code ignored;
  socket.close(ignored);
  if (stream) std::exchange(stream, {})->drop();
  local_address.clear();
  open = false;
}

WsClient::WsClient(asio::io_context& io, Options options, Handlers handlers)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(handlers))) {}

WsClient::~WsClient() {
  impl_->stopped = true;
  impl_->done = {};
  impl_->cut();
}

void WsClient::start() {
  asio::post(impl_->io, [self = impl_, now = impl_->turn] {
    if (!self->stopped && self->turn == now) self->attempt();
  });
}

bool WsClient::send(std::string message) {
  return impl_->open && impl_->stream && impl_->stream->send(std::move(message));
}

bool WsClient::connected() const { return impl_->open; }
std::string WsClient::local_address() const { return impl_->open ? impl_->local_address : ""; }
std::string WsClient::last_error() const { return impl_->last_error; }

void WsClient::stop(std::function<void()> done) {
  if (impl_->stopped) return;
  impl_->stopped = true;
  if (impl_->open && impl_->stream) {
    impl_->done = std::move(done);
    impl_->open = false;
    return impl_->stream->close("done");
  }
  impl_->cut();
  if (done) asio::post(impl_->io, std::move(done));
}

void WsClient::drop_for(Duration duration) {
  if (impl_->stopped) return;
  const bool was_open = impl_->open;
  impl_->cut();
  impl_->wait_then_attempt(duration);
  if (!was_open) return;
  asio::post(impl_->io, [self = impl_] {
    if (!self->stopped && self->handlers.on_close) self->handlers.on_close("cut on request");
  });
}

}  // namespace shanty::net
