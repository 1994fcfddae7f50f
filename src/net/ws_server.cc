#include "net/ws_server.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "net/address.h"
#include "net/tls.h"
#include "net/ws_stream.h"

namespace shanty::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr Duration kMaxRejectionNoteAfter = std::chrono::minutes(1);
constexpr int kListenAttempts = 10;
constexpr auto kListenRetryUnit = std::chrono::milliseconds(1);
constexpr auto kAcceptRetryAfter = std::chrono::milliseconds(50);  // out of descriptors or memory

std::string numeric_address(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  const auto address = endpoint.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
}

enum class Stage { kBind, kListen };

error_code try_to_listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, Stage& stage) {
  stage = Stage::kBind;
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (error) return error;
  stage = Stage::kListen;
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

// With SO_REUSEADDR several may bind, and of those that listen at the same moment Linux may refuse
// all. A later bind fails where another does listen, so whoever was refused tries again.
error_code open_acceptor(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  for (int attempt = 0; attempt < kListenAttempts; ++attempt) {
    Stage stage{};
    error = try_to_listen(acceptor, endpoint, stage);
    if (error != asio::error::address_in_use || stage != Stage::kListen) break;
    error_code ignored;
    acceptor.close(ignored);
    const auto byte = static_cast<unsigned char>(secure_random_bytes(1)[0]);
    std::this_thread::sleep_for(kListenRetryUnit * (byte % 16));
  }
  return error;
}

Result<std::vector<asio::ip::address>> listen_addresses(const std::string& host) {
  if (host.empty()) {
    return std::vector<asio::ip::address>{asio::ip::address_v6::any(), asio::ip::address_v4::any()};
  }
  std::vector<asio::ip::address> addresses;
  for (const std::string& text : TRY(resolve(host))) {
    error_code error;
    const auto address = asio::ip::make_address(text, error);
    if (!error) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

struct WsServer::Impl : std::enable_shared_from_this<WsServer::Impl> {
  struct Peer {
    std::shared_ptr<WsStream> stream;  // shared with its operations in flight
    std::string address;
  };

  Impl(asio::io_context& io_context, Options&& given, Handlers&& wanted)
      : io(io_context),
        options(std::move(given)),
        handlers(std::move(wanted)),
        acceptor(io_context),
        accept_timer(io_context),
        note_timer(io_context),
        note_after(options.rejection_note_after) {
    if (options.tls) tls = make_tls_server_context(options.token);
  }

  Status open(bool* address_in_use);
  void accept();
  void accepted(const error_code& error, tcp::socket socket);
  void admit(tcp::socket socket);
  void make_room();
  void evict_one(const char* why);
  void opened(ConnId id);
  void message(ConnId id, std::string_view text);
  void ended(ConnId id, const WsEnd& how);
  void reject(const std::string& address, const std::string& why);
  void tell_rejection();
  void finish_stop();
  void shut();
  WsStream::Options stream_options() const;

  asio::io_context& io;
  const Options options;
  const Handlers handlers;
  std::unique_ptr<asio::ssl::context> tls;
  tcp::acceptor acceptor;
  asio::steady_timer accept_timer;
  asio::steady_timer note_timer;
  std::map<ConnId, Peer> pending;  // have not proven the token; oldest first
  std::map<ConnId, Peer> peers;
  ConnId next_id = 1;
  uint64_t rejected = 0;
  uint64_t untold = 0;
  bool note_timer_runs = false;
  Duration note_after{};  // doubles with each note
  std::string last_rejected_address;
  std::string last_rejected_why;
  bool stopped = false;
  std::function<void()> done;
};

Status WsServer::Impl::open(bool* address_in_use) {
  if (address_in_use != nullptr) *address_in_use = false;
  const std::string where = join_host_port(options.host.empty() ? "*" : options.host, options.port);
  const auto addresses = TRY(listen_addresses(options.host));
  error_code error = asio::error::host_not_found;
  for (const auto& address : addresses) {
    error = open_acceptor(acceptor, tcp::endpoint(address, options.port));
    if (!error) return {};
    error_code ignored;
    acceptor.close(ignored);
    if (error == asio::error::address_in_use) break;
  }
  if (address_in_use != nullptr) *address_in_use = error == asio::error::address_in_use;
  return Error{"cannot listen on " + where + ": " + error.message()};
}

void WsServer::Impl::accept() {
  acceptor.async_accept([self = shared_from_this()](const error_code& error, tcp::socket socket) {
    self->accepted(error, std::move(socket));
  });
}

void WsServer::Impl::accepted(const error_code& error, tcp::socket socket) {
  if (stopped || error == asio::error::operation_aborted) return;
  if (!error) {
    admit(std::move(socket));
    return accept();
  }
  const bool transient =
      error == asio::error::connection_aborted || error == boost::system::errc::protocol_error;
  if (transient) return accept();
  evict_one("the machine has no room for more connections");
  accept_timer.expires_after(kAcceptRetryAfter);
  accept_timer.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (!cancelled && !self->stopped) self->accept();
  });
}

void WsServer::Impl::admit(tcp::socket socket) {
  make_room();
  prepare_socket(socket);
  const ConnId id = next_id++;
  const std::weak_ptr<Impl> weak = weak_from_this();
  WsStream::Events events;
  events.opened = [weak, id] {
    if (const auto self = weak.lock()) self->opened(id);
  };
  events.message = [weak, id](std::string_view text) {
    if (const auto self = weak.lock()) self->message(id, text);
  };
  events.ended = [weak, id](const WsEnd& how) {
    if (const auto self = weak.lock()) self->ended(id, how);
  };
  std::string address = numeric_address(socket);
  auto stream = WsStream::accepted(std::move(socket), stream_options(), std::move(events));
  pending.emplace(id, Peer{stream, std::move(address)});
  stream->start();
}

WsStream::Options WsServer::Impl::stream_options() const {
  return {.token = options.token,
          .tls = tls.get(),
          .host_header = {},
          .max_message_bytes = options.max_message_bytes,
          .max_queued_bytes = options.max_queued_bytes,
          .handshake_limit = options.handshake_limit,
          .idle_limit = options.idle_limit};
}

void WsServer::Impl::make_room() {
  while (pending.size() >= std::max<size_t>(options.max_unauthenticated, 1)) {
    evict_one("too many connections without a proof of the token");
  }
}

// The oldest connection of the address that holds the most gives way, so that a flood from one
// address pushes out itself and not an agent elsewhere.
void WsServer::Impl::evict_one(const char* why) {
  std::map<std::string_view, size_t> held;
  for (const auto& [id, peer] : pending) ++held[peer.address];
  const auto most =
      std::ranges::max_element(held, {}, [](const auto& entry) { return entry.second; });
  if (most == held.end()) return;
  const auto victim = std::ranges::find_if(
      pending, [&](const auto& entry) { return entry.second.address == most->first; });
  const Peer peer = std::move(victim->second);
  pending.erase(victim);
  peer.stream->drop();
  reject(peer.address, why);
}

void WsServer::Impl::opened(ConnId id) {
  auto node = pending.extract(id);
  CHECK(!node.empty());
  if (stopped) return;
  const std::string address = node.mapped().address;
  peers.insert(std::move(node));
  if (handlers.on_open) handlers.on_open(id, address);
}

void WsServer::Impl::message(ConnId id, std::string_view text) {
  if (!stopped && handlers.on_message) handlers.on_message(id, text);
}

void WsServer::Impl::ended(ConnId id, const WsEnd& how) {
  if (auto node = pending.extract(id); !node.empty()) {
    return reject(node.mapped().address, how.reason);
  }
  if (peers.erase(id) == 0) return;
  if (stopped) return finish_stop();
  if (handlers.on_close) handlers.on_close(id, how.reason);
}

void WsServer::Impl::reject(const std::string& address, const std::string& why) {
  ++rejected;
  ++untold;
  last_rejected_address = address;
  last_rejected_why = why;
  if (note_timer_runs || stopped) return;
  note_timer_runs = true;
  asio::post(io, [self = shared_from_this()] { self->tell_rejection(); });
}

void WsServer::Impl::tell_rejection() {
  note_timer_runs = !stopped && untold > 0;
  if (!note_timer_runs) return;
  note_timer.expires_after(note_after);
  note_after = std::min(2 * note_after, kMaxRejectionNoteAfter);
  note_timer.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (!cancelled) self->tell_rejection();
  });
  const uint64_t count = std::exchange(untold, 0);
  if (!handlers.on_rejected) return;
  const std::string address = last_rejected_address;
  const std::string why = last_rejected_why;
  handlers.on_rejected(address, why, count);
}

void WsServer::Impl::finish_stop() {
  if (peers.empty() && done) asio::post(io, std::exchange(done, {}));
}

void WsServer::Impl::shut() {
  stopped = true;
  error_code ignored;
  acceptor.close(ignored);
  accept_timer.cancel();
  note_timer.cancel();
  for (auto& [id, peer] : pending) peer.stream->drop();
  pending.clear();
}

Result<std::unique_ptr<WsServer>> WsServer::listen(asio::io_context& io, Options options,
                                                   Handlers handlers, bool* address_in_use) {
  auto impl = std::make_shared<Impl>(io, std::move(options), std::move(handlers));
  TRY_STATUS(impl->open(address_in_use));
  impl->accept();
  return std::unique_ptr<WsServer>(new WsServer(std::move(impl)));
}

WsServer::WsServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

WsServer::~WsServer() {
  impl_->shut();
  impl_->done = {};
  for (auto& [id, peer] : impl_->peers) peer.stream->drop();
  impl_->peers.clear();
}

uint16_t WsServer::port() const {
  error_code error;
  const auto endpoint = impl_->acceptor.local_endpoint(error);
  return error ? impl_->options.port : endpoint.port();
}

void WsServer::send(ConnId id, std::string message) {
  const auto peer = impl_->peers.find(id);
  if (peer != impl_->peers.end()) peer->second.stream->send(std::move(message));
}

void WsServer::close(ConnId id, std::string_view reason) {
  const auto peer = impl_->peers.find(id);
  if (peer != impl_->peers.end()) peer->second.stream->close(reason);
}

void WsServer::stop(std::function<void()> done) {
  if (impl_->stopped) return;
  impl_->shut();
  impl_->done = std::move(done);
  for (auto& [id, peer] : impl_->peers) peer.stream->close("the coordinator stops");
  impl_->finish_stop();
}

uint64_t WsServer::rejected() const { return impl_->rejected; }
size_t WsServer::connection_count() const { return impl_->peers.size(); }

}  // namespace shanty::net
