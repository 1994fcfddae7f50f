#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ckpt/channel.h"
#include "ckpt/rank_store.h"

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
  static Result<std::unique_ptr<PeerServer>> start(bool loopback, Find find);
  uint16_t port() const { return server_->port(); }
  const std::string& token() const { return token_; }

 private:
  std::string token_;
  std::unique_ptr<ChannelServer> server_;
};

// Another engine's slots, over one connection. Thread-safe.
class PeerReader {
 public:
  PeerReader(const Peer& peer, int rank);
  Result<SlotFacts> facts(const std::string& root, int rank, SlotId id);
  Status fetch(const std::string& root, int rank, SlotId id, const std::string& file,
               uint64_t offset, char* out, size_t size);

 private:
  std::unique_ptr<ChannelClient> channel_;
};

}  // namespace shanty::ckpt
