#include "ckpt/peer_server.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "net/address.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr size_t kTokenBytes = 32;
constexpr size_t kHashDigits = 32;
constexpr size_t kMaxQuestionBytes = size_t{1} << 20;
constexpr uint64_t kMaxFactsBytes = uint64_t{256} << 20;
constexpr Duration kAnswerLimit = std::chrono::seconds(60);

std::optional<std::string_view> bytes_of(const Snapshot& snapshot, const std::string& path) {
  for (const auto& [name, bytes] : snapshot.files) {
    if (name == path) return bytes;
  }
  return std::nullopt;
}

json question_of(const SlotName& slot) {
  return {{"root", slot.root},
          {"slot_rank", slot.rank},
          {"step", slot.id.step},
          {"generation", slot.id.generation},
          {"number", slot.id.number}};
}

// On the wire: a question is its length (4 bytes) and JSON; an answer is one byte, 0 for an error,
// the length (8 bytes) of what follows, and that: the bytes, or the error's text. Numbers as the
// machine has them: all engines of a job run one program.
Status send_answer(net::ByteStream& stream, bool is_ok, std::string_view body) {
  std::string head(1, is_ok ? '\1' : '\0');
  const uint64_t size = body.size();
  head.append(reinterpret_cast<const char*>(&size), sizeof size);
  TRY_STATUS(stream.write(head));
  return stream.write(body);
}

Result<json> read_question(net::ByteStream& stream) {
  uint32_t size = 0;
  TRY_STATUS(stream.read(reinterpret_cast<char*>(&size), sizeof size));
  if (size > kMaxQuestionBytes) return Error{"a question that is too long"};
  std::string text(size, '\0');
  TRY_STATUS(stream.read(text.data(), size));
  auto question = parse_json(text);
  if (!question || !question->is_object()) return Error{"a question that is no JSON"};
  return std::move(*question);
}

Status answer(net::ByteStream& stream, const json& asked, const PeerServer::Find& find) {
  const int rank = json_int(asked, "slot_rank", -1);
  const SlotId id{json_uint64(asked, "step"), json_uint64(asked, "generation"),
                  json_uint64(asked, "number")};
  const auto content = find(json_string(asked, "root"), rank, id);
  if (!content) {
    return send_answer(stream, false,
                       fmt::format("rank {}'s step {} is no longer in memory", rank, id.step));
  }
  if (!asked.contains("file")) {
    return send_answer(stream, true, encode_slot_facts(make_slot_facts(*content)));
  }
  const auto bytes = bytes_of(*content, json_string(asked, "file"));
  const uint64_t offset = json_uint64(asked, "offset");
  const uint64_t size = json_uint64(asked, "size");
  if (!bytes || offset > bytes->size() || size > bytes->size() - offset) {
    return send_answer(stream, false, "a question for bytes that are not there");
  }
  return send_answer(stream, true, bytes->substr(offset, size));
}

// Sends the question and returns the length of the answer that follows.
Result<uint64_t> ask_on(net::ByteStream& stream, const json& question) {
  const std::string text = print_json(question);
  const auto size = static_cast<uint32_t>(text.size());
  std::string message(reinterpret_cast<const char*>(&size), sizeof size);
  TRY_STATUS(stream.write(message += text));
  char is_ok = 0;
  uint64_t answer_size = 0;
  TRY_STATUS(stream.read(&is_ok, 1));
  TRY_STATUS(stream.read(reinterpret_cast<char*>(&answer_size), sizeof answer_size));
  if (is_ok != 0) return answer_size;
  std::string why(std::min<uint64_t>(answer_size, kMaxQuestionBytes), '\0');
  TRY_STATUS(stream.read(why.data(), why.size()));
  return Error{why};
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

Result<std::unique_ptr<PeerServer>> PeerServer::start(bool loopback, Find find, Duration limit) {
  auto server = std::make_unique<PeerServer>();
  server->token_ = hex(secure_random_bytes(kTokenBytes));
  server->server_ = TRY(net::ByteServer::listen(
      {.on_loopback = loopback, .token = server->token_, .tls = !loopback, .limit = limit},
      [find = std::move(find)](net::ByteStream& stream) {
        while (true) {
          const auto asked = read_question(stream);
          if (!asked) return;
          if (!answer(stream, *asked, find)) return;
        }
      }));
  return server;
}

PeerReader::Stream PeerReader::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  auto stream = std::move(idle_.back());
  idle_.pop_back();
  return stream;
}

// The server closes what is idle for long, so an idle stream may fail where a fresh one does not.
Result<PeerReader::Answer> PeerReader::ask(const json& question) {
  while (Stream idle = take_idle()) {
    if (const auto size = ask_on(*idle, question)) return Answer{std::move(idle), *size};
  }
  Stream fresh = TRY(net::ByteStream::connect({.host = peer_.host,
                                               .port = peer_.port,
                                               .token = peer_.token,
                                               .tls = !net::is_loopback(peer_.host),
                                               .limit = kAnswerLimit}));
  const uint64_t size = TRY(ask_on(*fresh, question));
  return Answer{std::move(fresh), size};
}

void PeerReader::put_back(Stream stream) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(stream));
}

Result<SlotFacts> PeerReader::facts(const SlotName& slot) {
  auto [stream, size] = TRY(ask(question_of(slot)));
  if (size > kMaxFactsBytes) return Error{"facts of a slot that are too long"};
  std::string text(size, '\0');
  TRY_STATUS(stream->read(text.data(), size));
  put_back(std::move(stream));
  return decode_slot_facts(text);
}

Status PeerReader::fetch(const SlotName& slot, const std::string& file, uint64_t offset, char* out,
                         size_t size) {
  json question = question_of(slot);
  question["file"] = file;
  question["offset"] = offset;
  question["size"] = size;
  auto [stream, answer_size] = TRY(ask(question));
  if (answer_size != size) return Error{"a peer's answer of another size"};
  TRY_STATUS(stream->read(out, size));
  put_back(std::move(stream));
  return {};
}

}  // namespace shanty::ckpt
