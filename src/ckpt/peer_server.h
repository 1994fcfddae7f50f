#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "ckpt/rank_store.h"
#include "net/byte_server.h"
#include "net/byte_stream.h"

namespace shanty::ckpt {

// A save in a slot as it is told to other engines.
struct SlotFacts {
  Receipt receipt;  // with checksums, but for xxh3
  int world_size = 1;
  std::string state_json;
  std::string global_json;
};
std::string encode_slot_facts(const SlotFacts& facts);
Result<SlotFacts> decode_slot_facts(std::string_view text);
SlotFacts make_slot_facts(const Snapshot& snapshot);

// Lets other engines of the job read what this one has in its slots. Thread-safe.
class PeerServer {
 public:
  using Find = std::function<std::optional<Snapshot>(const std::string& root, int rank, SlotId)>;
  // On loopback without TLS, or on all interfaces with it.
  static Result<std::unique_ptr<PeerServer>> start(bool loopback, Find find,
                                                   Duration limit = std::chrono::seconds(60));
  uint16_t port() const { return server_->port(); }
  const std::string& token() const { return token_; }

 private:
  std::string token_;
  std::unique_ptr<net::ByteServer> server_;
};

// Which slot of an engine.
struct SlotName {
  std::string root;
  int rank = 0;
  SlotId id;
};

// Another engine's slots. Thread-safe: each call has a connection for itself, which later calls
// use again.
class PeerReader {
 public:
  explicit PeerReader(Peer peer) : peer_(std::move(peer)) {}
  Result<SlotFacts> facts(const SlotName& slot);
  // Bytes [offset, offset + size) of a file of the slot.
  Status fetch(const SlotName& slot, const std::string& file, uint64_t offset, char* out,
               size_t size);

 private:
  using Stream = std::unique_ptr<net::ByteStream>;
  struct Answer {
    Stream stream;
    uint64_t size = 0;  // of what is to be read from it
  };
  Result<Answer> ask(const nlohmann::json& question);
  Stream take_idle();
  void put_back(Stream stream);

  const Peer peer_;
  std::mutex mutex_;
  std::vector<Stream> idle_;
};

}  // namespace shanty::ckpt
