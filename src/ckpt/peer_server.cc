#include "ckpt/peer_server.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "ckpt/base64.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr size_t kTokenBytes = 32;
constexpr size_t kHashDigits = 32;
constexpr uint64_t kFetchBytes = uint64_t{4} << 20;
constexpr Duration kAnswerLimit = std::chrono::seconds(60);

std::optional<std::string_view> bytes_of(const Snapshot& snapshot, const std::string& path) {
  for (const auto& [name, bytes] : snapshot.files) {
    if (name == path) return bytes;
  }
  return std::nullopt;
}

json place(const std::string& root, int rank, SlotId id) {
  return {{"root", root}, {"slot_rank", rank}, {"step", id.step}, {"generation", id.generation}};
}

Result<std::string> answer_question(const Question& question, const PeerServer::Find& find) {
  const auto asked = parse_json(question.body);
  if (!asked || !asked->is_object()) return Error{"a question that is no JSON"};
  const int rank = json_int(*asked, "slot_rank", -1);
  const SlotId id{json_uint64(*asked, "step"), json_uint64(*asked, "generation")};
  const auto content = find(json_string(*asked, "root"), rank, id);
  if (!content) {
    return Error{fmt::format("rank {}'s step {} is no longer in memory", rank, id.step)};
  }
  if (question.kind == "facts") return encode_slot_facts(make_slot_facts(*content));
  const auto bytes = bytes_of(*content, json_string(*asked, "file"));
  const uint64_t offset = json_uint64(*asked, "offset");
  const uint64_t size = json_uint64(*asked, "size");
  if (question.kind != "bytes" || !bytes || offset > bytes->size() || size > kFetchBytes ||
      size > bytes->size() - offset) {
    return Error{"a question for bytes that are not there"};
  }
  return encode_base64(bytes->substr(offset, size));
}

}  // namespace

std::string encode_slot_facts(const SlotFacts& facts) {
  return print_json(json{{"receipt", encode_receipt(facts.receipt)},
                         {"world_size", facts.world_size},
                         {"state", facts.state_json},
                         {"global", facts.global_json}});
}

Result<SlotFacts> decode_slot_facts(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return Error{"facts of a slot that are no JSON"};
  return SlotFacts{.receipt = TRY(decode_receipt(json_string(*parsed, "receipt"))),
                   .world_size = json_int(*parsed, "world_size", 1),
                   .state_json = json_string(*parsed, "state"),
                   .global_json = json_string(*parsed, "global")};
}

SlotFacts make_slot_facts(const Snapshot& snapshot) {
  SlotFacts facts{.receipt = snapshot.receipt,
                  .world_size = snapshot.world_size,
                  .state_json = snapshot.state_json,
                  .global_json = snapshot.global_json};
  for (StoredFile& file : facts.receipt.files) {
    const auto bytes = bytes_of(snapshot, file.path);
    if (file.crc32c.empty() && bytes) file.crc32c = chunk_checksums(*bytes);
    file.xxh3 = std::string(kHashDigits, '0');
  }
  facts.receipt.files.push_back({.path = state_path(snapshot.rank),
                                 .rank = snapshot.rank,
                                 .bytes = snapshot.state_json.size(),
                                 .crc32c = chunk_checksums(snapshot.state_json),
                                 .xxh3 = std::string(kHashDigits, '0')});
  return facts;
}

Result<std::unique_ptr<PeerServer>> PeerServer::start(bool loopback, Find find) {
  auto server = std::make_unique<PeerServer>();
  server->token_ = hex(secure_random_bytes(kTokenBytes));
  auto channel = ChannelServer::listen(
      {.host = loopback ? "127.0.0.1" : "", .token = server->token_},
      [find = std::move(find)](const Question& question, const ChannelServer::Answer& answer) {
        answer(answer_question(question, find));
      });
  if (!channel) return channel.error();
  server->server_ = std::move(*channel);
  return server;
}

PeerReader::PeerReader(const Peer& peer, int rank)
    : channel_(ChannelClient::connect(
          {.host = peer.host, .port = peer.port, .token = peer.token, .rank = rank})) {}

Result<SlotFacts> PeerReader::facts(const std::string& root, int rank, SlotId id) {
  return decode_slot_facts(
      TRY(channel_->ask("facts", "", print_json(place(root, rank, id)), kAnswerLimit)));
}

Status PeerReader::fetch(const std::string& root, int rank, SlotId id, const std::string& file,
                         uint64_t offset, char* out, size_t size) {
  json question = place(root, rank, id);
  question["file"] = file;
  for (size_t done = 0; done < size;) {
    const size_t part = std::min<uint64_t>(kFetchBytes, size - done);
    question["offset"] = offset + done;
    question["size"] = part;
    const auto bytes =
        decode_base64(TRY(channel_->ask("bytes", "", print_json(question), kAnswerLimit)));
    if (!bytes || bytes->size() != part) return Error{"a peer's answer of another size"};
    std::memcpy(out + done, bytes->data(), part);
    done += part;
  }
  return {};
}

}  // namespace shanty::ckpt
