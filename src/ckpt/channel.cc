#include "ckpt/channel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "net/address.h"
#include "net/ws_client.h"
#include "net/ws_server.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

namespace asio = boost::asio;
using nlohmann::json;

// An engine may be silent for as long as its trainers compute.
constexpr Duration kIdleLimit = std::chrono::hours(24 * 365);
constexpr size_t kMaxQueuedBytes = size_t{1} << 30;
constexpr Duration kGoodbyeLimit = std::chrono::seconds(8);
// Without a connection for so long, the leader is gone with its node or its job.
constexpr Duration kLostLimit = std::chrono::seconds(30);
// Nothing lies between two processes of one machine: the other one has ended.
constexpr Duration kLoopbackLostLimit = std::chrono::seconds(5);
constexpr Duration kLookEvery = std::chrono::seconds(1);
// The first word on each connection: no question, it only tells the rank.
constexpr std::string_view kHere = "here";

class IoThread {
 public:
  IoThread() : work_(asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}
  asio::io_context& io() { return io_; }
  void stop() {
    work_.reset();
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

class Server : public ChannelServer {
 public:
  Server(const Options& options, std::function<void(Question, Answer)> on_question)
      : on_question_(std::move(on_question)),
        on_lost_(options.on_lost),
        lost_limit_(options.lost_limit) {}
  ~Server() override {
    {
      // Answers that come later find nobody.
      const std::lock_guard lock(life_->mutex);
      life_->server = nullptr;
    }
    if (server_) {
      // Answers that were given are on their way: a rank that waits for one must get it.
      std::promise<void> sent;
      asio::post(thread_.io(), [&] { server_->stop([&] { sent.set_value(); }); });
      sent.get_future().wait_for(kGoodbyeLimit);
    }
    thread_.stop();
    server_.reset();
  }

  Status open(Options options) {
    net::WsServer::Handlers handlers;
    handlers.on_message = [this](net::ConnId id, std::string_view text) { on_message(id, text); };
    handlers.on_close = [this](net::ConnId id, const std::string&) { on_close(id); };
    auto server = net::WsServer::listen(thread_.io(),
                                        {.host = options.host,
                                         .token = options.token,
                                         .tls = options.host.empty(),
                                         .max_message_bytes = kMaxChannelMessageBytes,
                                         .max_queued_bytes = kMaxQueuedBytes,
                                         .idle_limit = kIdleLimit},
                                        std::move(handlers));
    if (!server) return server.error();
    server_ = std::move(*server);
    port_ = server_->port();
    life_->server = this;
    return {};
  }

  uint16_t port() const override { return port_; }

  struct Life {
    std::mutex mutex;
    Server* server = nullptr;
  };

  void on_message(net::ConnId id, std::string_view text) {
    const auto message = parse_json(text);
    if (!message || !message->is_object()) return server_->close(id, "not a question");
    const int rank = json_int(*message, "rank", -1);
    ranks_[id] = rank;
    lost_.erase(rank);
    if (json_string(*message, "kind") == kHere) return;
    const uint64_t number = json_uint64(*message, "id");
    const auto answer = [life = life_, id, number](const Result<std::string>& body) {
      json reply{{"id", number}};
      if (body.ok()) {
        reply["body"] = *body;
      } else {
        reply["error"] = body.error().message;
      }
      const std::lock_guard lock(life->mutex);
      if (life->server != nullptr) life->server->send(id, print_json(reply));
    };
    on_question_({.rank = rank,
                  .kind = json_string(*message, "kind"),
                  .key = json_string(*message, "key"),
                  .body = json_string(*message, "body")},
                 answer);
  }

  void on_close(net::ConnId id) {
    const auto closed = ranks_.find(id);
    if (closed == ranks_.end()) return;
    const int rank = closed->second;
    ranks_.erase(closed);
    const bool is_back = std::any_of(ranks_.begin(), ranks_.end(),
                                     [rank](const auto& other) { return other.second == rank; });
    if (is_back || !on_lost_) return;
    auto& timer = lost_[rank] = std::make_unique<asio::steady_timer>(thread_.io(), lost_limit_);
    timer->async_wait([this, rank](boost::system::error_code error) {
      if (!error) on_lost_(rank);
    });
  }

  void send(net::ConnId id, std::string text) {
    asio::post(thread_.io(), [this, id, text = std::move(text)]() mutable {
      if (server_) server_->send(id, std::move(text));
    });
  }

  const std::function<void(Question, Answer)> on_question_;
  const std::function<void(int)> on_lost_;
  const Duration lost_limit_;
  const std::shared_ptr<Life> life_ = std::make_shared<Life>();  // shared with answers to come
  IoThread thread_;
  std::map<net::ConnId, int> ranks_;                         // of the connections
  std::map<int, std::unique_ptr<asio::steady_timer>> lost_;  // by rank
  std::unique_ptr<net::WsServer> server_;
  uint16_t port_ = 0;
};

class Client : public ChannelClient {
 public:
  explicit Client(Options options)
      : rank_(options.rank),
        where_(net::join_host_port(options.host, options.port)),
        lost_limit_(net::is_loopback(options.host) ? kLoopbackLostLimit : kLostLimit) {
    net::WsClient::Handlers handlers;
    handlers.on_open = [this] { opened(); };
    handlers.on_message = [this](std::string_view text) { on_message(text); };
    handlers.on_close = [this](const std::string&) { closed(); };
    handlers.on_rejected = [this](const std::string& reason) { on_rejected(reason); };
    client_ = std::make_unique<net::WsClient>(
        thread_.io(),
        net::WsClient::Options{.host = options.host,
                               .port = options.port,
                               .token = options.token,
                               .tls = !net::is_loopback(options.host),
                               .max_message_bytes = kMaxChannelMessageBytes,
                               .max_queued_bytes = kMaxQueuedBytes},
        std::move(handlers));
    asio::post(thread_.io(), [this] { client_->start(); });
  }
  ~Client() override {
    thread_.stop();
    client_.reset();
  }

  Result<std::string> ask(const std::string& kind, const std::string& key, std::string body,
                          Duration limit) override {
    std::unique_lock lock(mutex_);
    const uint64_t id = ++last_id_;
    const json message{
        {"id", id}, {"rank", rank_}, {"kind", kind}, {"key", key}, {"body", std::move(body)}};
    Pending& pending = pending_[id];
    pending.text = print_json(message);
    asio::post(thread_.io(), [this, id] { send(id); });
    const TimePoint deadline = system_clock().now() + limit;
    const auto is_over = [&] { return aborted_ || pending.answer.has_value(); };
    bool lost = false;
    while (!is_over() && !lost && system_clock().now() < deadline) {
      changed_.wait_for(lock, std::min(kLookEvery, deadline - system_clock().now()), is_over);
      lost = lost_since_ && system_clock().now() - *lost_since_ > lost_limit_;
    }
    if (aborted_ && !pending.answer) pending.answer = Error{"the job's generation has ended"};
    Result<std::string> answer =
        pending.answer
            ? std::move(*pending.answer)
            : Error{fmt::format("asking rank 0's checkpoint engine at {} ({}): {}{}", where_, kind,
                                lost ? "the connection is lost"
                                     : fmt::format("no answer in {:.3g} s",
                                                   std::chrono::duration<double>(limit).count()),
                                rejected_.empty() ? "" : "; it says: " + rejected_)};
    pending_.erase(id);
    return answer;
  }

  std::string local_address() override {
    const std::lock_guard lock(mutex_);
    return local_address_;
  }

  void abort() override {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  struct Pending {
    std::string text;
    bool sent = false;  // on this connection
    std::optional<Result<std::string>> answer;
  };

  void opened() {
    const std::lock_guard lock(mutex_);
    local_address_ = client_->local_address();
    lost_since_.reset();
    client_->send(print_json(json{{"rank", rank_}, {"kind", kHere}}));
    for (auto& [id, pending] : pending_) {
      client_->send(pending.text);
      pending.sent = true;
    }
  }

  void closed() {
    const std::lock_guard lock(mutex_);
    lost_since_ = system_clock().now();
    for (auto& [id, pending] : pending_) pending.sent = false;
  }

  /// What is asked before the connection is there goes with opened().
  void send(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto pending = pending_.find(id);
    if (pending == pending_.end() || pending->second.sent || lost_since_) return;
    client_->send(pending->second.text);
    pending->second.sent = true;
  }

  void on_message(std::string_view text) {
    const auto message = parse_json(text);
    if (!message || !message->is_object()) return;
    const std::lock_guard lock(mutex_);
    const auto pending = pending_.find(json_uint64(*message, "id"));
    if (pending == pending_.end() || pending->second.answer) return;
    if (message->contains("error")) {
      pending->second.answer = Error{json_string(*message, "error")};
    } else {
      pending->second.answer = json_string(*message, "body");
    }
    changed_.notify_all();
  }

  void on_rejected(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    rejected_ = reason;
  }

  const int rank_;
  const std::string where_;
  const Duration lost_limit_;
  std::mutex mutex_;  // guards all up to the thread
  std::condition_variable changed_;
  std::map<uint64_t, Pending> pending_;
  uint64_t last_id_ = 0;
  bool aborted_ = false;
  std::optional<TimePoint> lost_since_ = system_clock().now();  // absent while connected
  std::string rejected_;
  std::string local_address_;
  IoThread thread_;
  std::unique_ptr<net::WsClient> client_;  // used on the thread only
};

}  // namespace

Result<std::unique_ptr<ChannelServer>> ChannelServer::listen(
    Options options, std::function<void(Question, Answer)> on_question) {
  auto server = std::make_unique<Server>(options, std::move(on_question));
  TRY_STATUS(server->open(std::move(options)));
  return std::unique_ptr<ChannelServer>(std::move(server));
}

std::unique_ptr<ChannelClient> ChannelClient::connect(Options options) {
  return std::make_unique<Client>(std::move(options));
}

Result<json> ask_leader(ChannelClient& channel, const std::string& kind, const std::string& key,
                        std::string body, Duration limit) {
  auto parsed = parse_json(TRY(channel.ask(kind, key, std::move(body), limit)));
  if (!parsed || !parsed->is_object()) return Error{"rank 0's engine answered no JSON"};
  return std::move(*parsed);
}

}  // namespace shanty::ckpt
