#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace shanty::ckpt {

// Questions of the ranks' engines to that of rank 0, and its answers, which may come later. One
// WebSocket connection per rank, made again when it breaks: a question that has no answer yet is
// then asked again, so the leader must know a repeated one by its rank and key.

constexpr size_t kMaxChannelMessageBytes = size_t{256} << 20;

struct Question {
  int rank = 0;
  std::string kind;
  std::string key;   // with rank and kind, names this question
  std::string body;  // JSON or ""
};

// Thread-safe.
class ChannelServer {
 public:
  using Answer = std::function<void(Result<std::string> body)>;  // once, from any thread

  struct Options {
    std::string host;  // "" = all interfaces, by TLS
    std::string token;
    // Told of a rank that was connected and has not been for `lost_limit`: its engine is gone. On
    // the channel's own thread, must not block.
    std::function<void(int rank)> on_lost = nullptr;
    Duration lost_limit = std::chrono::seconds(30);
  };
  // `on_question` is called on the channel's own thread and must not block.
  static Result<std::unique_ptr<ChannelServer>> listen(
      Options options, std::function<void(Question, Answer)> on_question);
  virtual ~ChannelServer() = default;
  virtual uint16_t port() const = 0;
};

// Thread-safe.
class ChannelClient {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    std::string token;
    int rank = 0;
  };
  static std::unique_ptr<ChannelClient> connect(Options options);
  virtual ~ChannelClient() = default;
  // Blocks for the answer, at most `limit`. Errors: the leader's own, or that none came.
  virtual Result<std::string> ask(const std::string& kind, const std::string& key, std::string body,
                                  Duration limit) = 0;
  // The numeric address of this end, "" while there is no connection.
  virtual std::string local_address() = 0;
  // Every question, asked or to come, ends with an error at once.
  virtual void abort() = 0;
};

// The same for an answer that is a JSON object.
Result<nlohmann::json> ask_leader(ChannelClient& channel, const std::string& kind,
                                  const std::string& key, std::string body, Duration limit);

}  // namespace shanty::ckpt
