#include "ckpt/session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "ckpt/channel.h"
#include "ckpt/frames.h"
#include "ckpt/leader.h"
#include "ckpt/lease.h"
#include "ckpt/limits.h"
#include "ckpt/memory_source.h"
#include "ckpt/pull.h"
#include "ckpt/read_into.h"
#include "ckpt/reader.h"
#include "ckpt/trial.h"
#include "ckpt/window.h"
#include "net/address.h"
#include "os/process.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;
constexpr int kCopyThreads = 2;  // beside a trainer that computes
constexpr int kMaxLoadThreads = 8;
constexpr Duration kBeginLimit = std::chrono::seconds(60);
// Together less than a trainer waits for the answer to its hello.
constexpr Duration kTakeOverLimit = std::chrono::seconds(10);
constexpr Duration kLeaderEndLimit = std::chrono::seconds(90);
constexpr double kMaxWaitSeconds = 3600;
// For each leader, when the engine ends and all time was spent on waiting for saves.
constexpr Duration kLastCommitLimit = std::chrono::seconds(10);

// One rank's share of the processors, as all ranks of a node load at once.
int load_threads(int local_world_size) {
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(processors / std::max(local_world_size, 1), 2, kMaxLoadThreads);
}

std::optional<std::vector<uint64_t>> numbers(const json& object, const char* name) {
  const json* array = json_array(object, name);
  if (array == nullptr) return std::nullopt;
  std::vector<uint64_t> values;
  for (const json& value : *array) {
    if (!value.is_number_unsigned()) return std::nullopt;
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

Result<std::vector<Box>> boxes_of(const json& object, const std::vector<uint64_t>& shape,
                                  const char* shape_key) {
  if (const auto flat = numbers(object, "flat")) {
    if (flat->size() != 2) return Error{"a flat range needs a start and a count"};
    const uint64_t count = TRY(element_count(shape));
    if ((*flat)[0] > count || (*flat)[1] > count - (*flat)[0]) {
      return Error{fmt::format("the flat range {}+{} is outside of {} elements", (*flat)[0],
                               (*flat)[1], count)};
    }
    return boxes_of_flat_range(shape, {(*flat)[0], (*flat)[1]});
  }
  auto offsets = numbers(object, "offsets");
  auto piece = numbers(object, shape_key);
  if (!offsets || !piece) return Error{"offsets and shape must be lists of numbers"};
  return std::vector<Box>{{std::move(*offsets), std::move(*piece)}};
}

// Most tensors are like others, so that each kind is told once.
json tell_tensors(const Manifest& manifest) {
  std::map<std::pair<std::string, std::vector<uint64_t>>, size_t> known;
  json names = json::array();
  json kinds = json::array();
  json kind_of = json::array();
  for (const auto& [name, tensor] : manifest.tensors) {
    const auto [kind, is_new] = known.try_emplace({tensor.dtype, tensor.shape}, known.size());
    if (is_new) kinds.push_back({{"dtype", tensor.dtype}, {"shape", tensor.shape}});
    names.push_back(name);
    kind_of.push_back(kind->second);
  }
  return {
      {"names", std::move(names)}, {"kinds", std::move(kinds)}, {"kind_of", std::move(kind_of)}};
}

Result<std::vector<uint64_t>> decode_addresses(const json& object, const char* name) {
  const auto bytes = decode_base64(json_string(object, name));
  if (!bytes || bytes->size() % 8 != 0) {
    return Error{fmt::format("{} is no base64 of addresses", name)};
  }
  std::vector<uint64_t> addresses(bytes->size() / 8);
  if (!bytes->empty()) std::memcpy(addresses.data(), bytes->data(), bytes->size());
  return addresses;
}

// An address of the trainer, never followed here.
char* address_of_trainer(uint64_t address) { return reinterpret_cast<char*>(address); }  // NOLINT

Result<std::vector<Want>> whole_wants(const Manifest& manifest, const json& whole) {
  const json* names = json_array(whole, "names");
  const auto addresses = TRY(decode_addresses(whole, "to"));
  if (names == nullptr || names->size() != addresses.size()) {
    return Error{"whole needs as many names as addresses"};
  }
  std::vector<Want> wants;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!(*names)[i].is_string()) return Error{"a name must be a string"};
    Want want{.name = (*names)[i].get<std::string>(), .boxes = {}};
    const auto* tensor = find_tensor(manifest, want.name);
    if (tensor == nullptr) return Error{"no tensor " + want.name};
    const std::vector<uint64_t>& shape = tensor->second.shape;
    want.boxes.push_back({std::vector<uint64_t>(shape.size()), shape});
    want.out = address_of_trainer(addresses[i]);
    wants.push_back(std::move(want));
  }
  return wants;
}

Duration limit_of(const json& request) {
  const double limit_s = std::clamp(json_double(request, "limit_s"), 0.0, kMaxWaitSeconds);
  return Duration(static_cast<int64_t>(limit_s * 1e9));
}

class Session {
 public:
  Session(Vfs& vfs, Stores& stores, Fd socket)
      : vfs_(vfs), stores_(stores), socket_(std::move(socket)) {}

  void run() {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
    if (peer.uid != ::geteuid()) return;
    trainer_ = peer.pid;
    while (true) {
      const auto request = receive_message(socket_.get());
      if (!request || !*request) return;
      descriptor_ = -1;
      const auto answer = handle(**request);
      const std::string text =
          print_json(answer.ok() ? *answer : json{{"error", answer.error().message}});
      if (!send_message(socket_.get(), text, answer.ok() ? descriptor_ : -1).ok()) return;
    }
  }

 private:
  Result<json> handle(const std::string& text) {
    const auto request = parse_json(text);
    if (!request || !request->is_object()) return Error{"the request is no JSON object"};
    const std::string op = json_string(*request, "op");
    if (op == "hello") return hello(*request);
    if (!store_) return Error{"the first request must be hello"};
    if (op == "join") return join(*request);
    if (op == "layout") return layout(*request);
    if (op == "begin") return begin(*request);
    if (op == "status") return wait(*request, true);
    if (op == "wait") return wait(*request, false);
    if (!channel_) return Error{"this rank has not joined rank 0's engine yet"};
    if (op == "preflight") return preflight(*request);
    if (op == "save") return save(*request);
    if (op == "abandon") return abandon_save(*request);
    if (op == "find") return find(*request);
    if (op == "read") return read(*request);
    if (op == "release") return release(*request);
    return Error{"the engine does not know the request \"" + op + "\""};
  }

  Result<json> hello(const json& request) {
    if (json_int(request, "protocol") != kProtocol) {
      return Error{
          fmt::format("the trainer speaks protocol {}, this engine {}; use the shanty "
                      "package that belongs to this binary",
                      json_int(request, "protocol"), kProtocol)};
    }
    root_ = json_string(request, "root");
    rank_ = json_int(request, "rank", -1);
    world_size_ = json_int(request, "world_size", 0);
    stores_.limit().set_rate(json_uint64(request, "rate_bytes_per_s"));
    if (root_.empty() || root_[0] != '/' || rank_ < 0 || rank_ >= world_size_) {
      return Error{"hello needs an absolute root and a rank within its world"};
    }
    while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
    generation_ = json_uint64(request, "generation");
    node_ = json_string(request, "node", host_name());
    const std::string address = json_string(request, "address");
    const int local_world_size = json_int(request, "local_world_size", world_size_);
    load_threads_ = load_threads(local_world_size);
    loopback_ = local_world_size == world_size_ || address.empty() || net::is_loopback(address);
    store_ = stores_.of(root_, rank_);
    store_->take_over(kTakeOverLimit);
    if (rank_ != 0) return json::object();
    // First, since one that still opens the root would take it from its successor.
    if (!stores_.end_leader(root_, kLeaderEndLimit)) {
      return Error{
          fmt::format("the storage of {} does not answer: what the job's generation before "
                      "asked of it has not ended; look at the storage",
                      root_)};
    }
    auto leader = TRY(
        Leader::start(vfs_, {.root = root_,
                             .run = json_string(request, "run"),
                             .run_dir = json_string(request, "run_dir"),
                             .generation = generation_,
                             .world_size = world_size_,
                             .keep = static_cast<size_t>(std::max(1, json_int(request, "keep", 3))),
                             .loopback = loopback_}));
    const std::string host = loopback_ ? "127.0.0.1" : address;
    const uint16_t port = leader->port();
    const std::string token = leader->token();
    stores_.set_leader(root_, std::move(leader));
    connect(host, port, token);
    // Greater than that of any hello before, so that no number of a generation is used twice.
    const auto first = static_cast<uint64_t>(system_clock().unix_time_ns());
    return json{
        {"leader", net::join_host_port(host, port)}, {"token", token}, {"first_number", first}};
  }

  void connect(const std::string& host, uint16_t port, const std::string& token) {
    channel_ = ChannelClient::connect({.host = host, .port = port, .token = token, .rank = rank_});
  }

  Result<json> join(const json& request) {
    const auto place = TRY(net::split_host_port(json_string(request, "leader"), 0));
    loopback_ = net::is_loopback(place.host);
    connect(place.host, place.port, json_string(request, "token"));
    return json::object();
  }

  Result<json> ask(const std::string& kind, uint64_t round, const json& body) {
    const std::string text = body.is_string() ? body.get<std::string>() : print_json(body);
    return ask_leader(*channel_, kind, std::to_string(round), text, kAllRanksLimit);
  }

  Result<Peer> own_peer() {
    Peer peer = TRY(stores_.peer(loopback_));
    peer.host = loopback_ ? "127.0.0.1" : channel_->local_address();
    return peer;
  }

  // Storage may hang: the training goes on meanwhile, and asks again.
  Result<json> preflight(const json& request) {
    if (!trial_.valid()) {
      trial_ = try_storage({.vfs = vfs_,
                            .root = root_,
                            .rank = rank_,
                            .round = std::to_string(++preflights_),
                            .bytes = json_uint64(request, "bytes"),
                            .channel = channel_});
    }
    if (trial_.wait_for(limit_of(request)) != std::future_status::ready) {
      return json{{"pending", true}};
    }
    return std::exchange(trial_, {}).get();
  }

  Result<json> layout(const json& request) {
    const json* tensors = json_array(request, "tensors");
    if (tensors == nullptr) return Error{"layout needs tensors"};
    std::vector<PieceSpec> specs;
    std::vector<size_t> pulls;
    for (const json& tensor : *tensors) {
      if (!tensor.is_object()) return Error{"a tensor must be an object"};
      if (json_string(tensor, "mode") == "pull") pulls.push_back(specs.size());
      specs.push_back(TRY(piece(tensor)));
    }
    std::map<std::string, std::string> aliases;
    if (const json* given = json_object(request, "aliases")) {
      for (const auto& [name, target] : given->items()) {
        if (target.is_string()) aliases[name] = target.get<std::string>();
      }
    }
    if (!pulls.empty() && !may_pull(trainer_)) return json{{"pull", false}};
    const auto made =
        TRY(store_->set_layout(std::move(specs), std::move(pulls), std::move(aliases)));
    layout_ = made->number;
    addresses_.clear();
    const auto arena = store_->arena();
    descriptor_ = arena->fd();
    return json{{"layout", made->number},
                {"slot_bytes", arena->slot_bytes()},
                {"slots", kSlots},
                {"offsets", made->layout.piece_offsets},
                {"pull", true}};
  }

  static Result<PieceSpec> piece(const json& tensor) {
    PieceSpec spec;
    spec.name = json_string(tensor, "name");
    spec.group = json_string(tensor, "group") == "optim" ? Group::kOptim : Group::kModel;
    spec.dtype = json_string(tensor, "dtype");
    auto shape = numbers(tensor, "shape");
    if (!shape) return Error{"the tensor " + spec.name + " has no shape"};
    spec.shape = std::move(*shape);
    spec.still = json_bool(tensor, "still");
    spec.boxes = TRY(boxes_of(tensor, spec.shape, "piece_shape").context(spec.name));
    std::erase_if(spec.boxes, [](const Box& box) {
      return std::find(box.shape.begin(), box.shape.end(), 0U) != box.shape.end();
    });
    const auto known = dtype_bytes(spec.dtype);
    spec.element_bytes = known ? *known : json_uint64(tensor, "element_bytes");
    if (spec.element_bytes == 0) {
      return Error{fmt::format("the tensor {} has the unknown type {} and no element_bytes",
                               spec.name, spec.dtype)};
    }
    return spec;
  }

  Result<json> begin(const json& request) {
    const int slot = TRY(
        store_->begin(json_uint64(request, "layout"), json_uint64(request, "step"), kBeginLimit));
    return json{{"slot", slot}};
  }

  // They stay as they are from save to save.
  Status take_pointers(const json& request) {
    if (!request.contains("pointers")) return {};
    addresses_ = TRY(decode_addresses(request, "pointers"));
    return {};
  }

  Result<json> save(const json& request) {
    TRY_STATUS(take_pointers(request));
    number_ = json_uint64(request, "number", number_ + 1);
    TRY_STATUS(store_->save({.layout = layout_,
                             .slot = json_int(request, "slot", -1),
                             .id = id_of(request),
                             .pid = trainer_,
                             .addresses = addresses_,
                             .world_size = world_size_,
                             .state_json = print_json(request.value("state", json::object())),
                             .global_json = print_json(request.value("global", json::object())),
                             .pin = json_bool(request, "pin"),
                             .threads = kCopyThreads,
                             .limit = &stores_.limit(),
                             .channel = channel_,
                             .node = node_,
                             .self = TRY(own_peer())}));
    return json::object();
  }

  SlotId id_of(const json& request) {
    return {.step = json_uint64(request, "step"),
            .generation = generation_,
            .number = json_uint64(request, "number", number_)};
  }

  Result<json> abandon_save(const json& request) {
    const SlotId id = id_of(request);
    store_->spoil(id);
    TRY(channel_->ask("spoil", fmt::format("{}.{}", id.step, id.number),
                      json_string(request, "why"), kAllRanksLimit));
    return json::object();
  }

  Result<json> wait(const json& request, bool at_once) {
    static constexpr std::array<std::pair<std::string_view, SlotState>, 5> kNames = {
        {{"copying", SlotState::kFilling},
         {"staged", SlotState::kCopied},
         {"durable", SlotState::kDurable},
         {"committed", SlotState::kCommitted},
         {"failed", SlotState::kFailed}}};
    SlotState wanted = SlotState::kFilling;
    for (const auto& [name, state] : kNames) {
      if (name == json_string(request, "state")) wanted = state;
    }
    const Duration limit = at_once ? Duration(0) : limit_of(request);
    const SaveStatus status = TRY(
        store_->wait(json_uint64(request, "step"), json_uint64(request, "number"), wanted, limit));
    std::string_view state = "copying";
    for (const auto& [name, value] : kNames) {
      if (value == status.state) state = name;
    }
    return json{{"state", state},
                {"error", status.error},
                {"seconds", {{"copy", status.copy_seconds}, {"durable", status.durable_seconds}}}};
  }

  Result<json> find(const json& request) {
    close_source();
    const Peer peer = TRY(own_peer());
    json slots = json::array();
    for (const Snapshot& held : stores_.snapshots(root_)) {
      slots.push_back(
          {held.id.step, held.id.generation, held.id.number, held.rank, held.world_size});
    }
    json spoiled = json::array();
    for (const SlotId& id : store_->spoiled()) {
      spoiled.push_back({id.step, id.generation, id.number});
    }
    json question{{"slots", slots},
                  {"spoiled", spoiled},
                  {"peer", {{"host", peer.host}, {"port", peer.port}, {"token", peer.token}}},
                  {"bad", std::exchange(bad_, "")}};
    if (request.contains("step") && request["step"].is_number_unsigned()) {
      question["step"] = request["step"];
    }
    json answer = TRY(ask("find", ++finds_, question));
    if (!answer.contains("source") || !answer["source"].is_string()) return answer;
    source_ = json_string(answer, "directory");
    const Status opened = open_source(answer);
    if (!opened.ok()) {
      // All ranks must hear of it, so this one goes on to `release` with nothing read.
      bad_ = source_;
      return Error{opened.error().message};
    }
    const Manifest& manifest = reader_->manifest();
    const int mine = rank_ < manifest.world_size ? rank_ : -1;
    json state;
    if (mine >= 0) {
      const auto text = reader_->read_file(state_path(mine));
      if (!text) {
        bad_ = source_;
        return text.error();
      }
      if (auto parsed = parse_json(*text)) state = std::move(*parsed);
    }
    answer.erase("holders");
    answer["direct"] = may_pull(trainer_);
    answer["world_size"] = manifest.world_size;
    answer["global"] = parse_json(manifest.global_json).value_or(json::object());
    answer["state"] = std::move(state);
    answer["tensors"] = tell_tensors(manifest);
    answer["aliases"] = manifest.aliases;
    return answer;
  }

  Status open_source(const json& answer) {
    if (json_string(answer, "source") == "memory") return open_memory(answer);
    const TimePoint deadline = system_clock().now() + kAppearLimit;
    while (true) {
      auto opened = stores_.open(source_);
      if (opened.ok()) {
        disk_ = std::move(*opened);
        reader_ = disk_.get();
        return {};
      }
      const auto there = vfs_.info(source_);
      if ((there.ok() && there->exists) || system_clock().now() >= deadline) {
        return opened.error();
      }
      std::this_thread::sleep_for(kAppearPoll);
    }
  }

  Status open_memory(const json& answer) {
    MemoryPlace place{.root = root_,
                      .id = {json_uint64(answer, "step"), json_uint64(answer, "generation"),
                             json_uint64(answer, "number")},
                      .here = {},
                      .elsewhere = {}};
    for (Snapshot& held : stores_.snapshots(root_)) {
      if (held.id == place.id) place.here.emplace(held.rank, std::move(held));
    }
    if (const json* holders = json_array(answer, "holders")) {
      for (const json& holder : *holders) {
        if (!holder.is_object()) continue;
        place.elsewhere[json_int(holder, "rank")] = {
            .host = json_string(holder, "host"),
            .port = static_cast<uint16_t>(json_int(holder, "port")),
            .token = json_string(holder, "token")};
      }
    }
    memory_ = TRY(stores_.open_memory(source_, std::move(place)));
    reader_ = &memory_->reader();
    return {};
  }

  Result<json> read(const json& request) {
    if (reader_ == nullptr) return Error{"nothing was found to read from"};
    const json* wants = json_array(request, "wants");
    if (wants == nullptr) return Error{"read needs wants"};
    std::vector<Want> direct;
    if (const json* whole = json_object(request, "whole")) {
      direct = TRY(whole_wants(reader_->manifest(), *whole));
    }
    std::vector<Want> windowed;
    std::vector<uint64_t> offsets;
    uint64_t end = 0;
    for (const json& want : *wants) {
      if (!want.is_object()) return Error{"a want must be an object"};
      Want item{.name = json_string(want, "name"), .boxes = {}};
      const auto* tensor = find_tensor(reader_->manifest(), item.name);
      if (tensor == nullptr) return Error{"no tensor " + item.name};
      item.boxes = TRY(boxes_of(want, tensor->second.shape, "shape").context(item.name));
      if (want.contains("to")) {
        item.out = address_of_trainer(json_uint64(want, "to"));
        direct.push_back(std::move(item));
        continue;
      }
      uint64_t elements = 0;
      for (const Box& box : item.boxes) elements += TRY(element_count(box.shape));
      constexpr uint64_t kAlignment = 64;
      end = (end + kAlignment - 1) / kAlignment * kAlignment;
      offsets.push_back(end);
      end += elements * tensor->second.element_bytes;
      windowed.push_back(std::move(item));
    }
    if (!windowed.empty() && TRY(window_.reserve(end))) descriptor_ = window_.fd();
    for (size_t i = 0; i < windowed.size(); ++i) windowed[i].out = window_.base() + offsets[i];
    const Status done = read_wants(direct, windowed);
    if (!done.ok()) {
      bad_ = source_;
      window_.release();
      return Error{fmt::format("reading {}: {}", source_, done.error().message)};
    }
    return json{{"offsets", offsets}};
  }

  Status read_wants(const std::vector<Want>& direct, const std::vector<Want>& windowed) {
    TRY_STATUS(read_into(trainer_, *reader_, direct, load_threads_));
    return reader_->read(windowed, load_threads_);
  }

  Result<json> release(const json& request) {
    close_source();
    const bool ok = json_bool(request, "ok") && bad_.empty();
    return ask("loaded", ++loads_, ok ? "ok" : "failed");
  }

  void close_source() {
    reader_ = nullptr;
    disk_.reset();
    memory_.reset();
    window_.release();
  }

  Vfs& vfs_;
  Stores& stores_;
  const Fd socket_;
  pid_t trainer_ = 0;
  int descriptor_ = -1;  // travels with the next answer
  std::string root_;
  int load_threads_ = 2;
  int rank_ = 0;
  int world_size_ = 1;
  uint64_t generation_ = 0;
  std::string node_;
  bool loopback_ = true;                    // all engines of the job are on this machine
  std::shared_ptr<RankStore> store_;        // shared with the node's other sessions
  std::shared_ptr<ChannelClient> channel_;  // shared with saves in the background
  uint64_t layout_ = 0;                     // the newest that this trainer asked for
  std::vector<uint64_t> addresses_;         // of what is pulled in it
  uint64_t number_ = 0;                     // of the newest save
  uint64_t preflights_ = 0;
  std::shared_future<Result<json>> trial_;  // of the storage, while its outcome was not asked for
  uint64_t finds_ = 0;
  uint64_t loads_ = 0;
  std::string source_;
  std::string bad_;  // the directory that could not be read, for the next find
  std::shared_ptr<CheckpointReader> disk_;  // shared with the node's other sessions
  std::shared_ptr<MemorySource> memory_;    // likewise
  CheckpointReader* reader_ = nullptr;
  Window window_;
};

}  // namespace

std::shared_ptr<RankStore> Stores::of(const std::string& root, int rank) {
  const std::lock_guard lock(mutex_);
  auto& store = stores_[{root, rank}];
  if (!store) store = std::make_shared<RankStore>(vfs_, root, rank);
  return store;
}

std::vector<Snapshot> Stores::snapshots(const std::string& root) {
  const std::lock_guard lock(mutex_);
  std::vector<Snapshot> found;
  for (const auto& [key, store] : stores_) {
    if (key.first != root) continue;
    for (Snapshot& held : store->snapshots()) found.push_back(std::move(held));
  }
  return found;
}

Result<std::shared_ptr<CheckpointReader>> Stores::open(const std::string& directory) {
  const std::lock_guard lock(opening_);
  std::erase_if(readers_, [](const auto& entry) { return entry.second.expired(); });
  if (auto reader = readers_[directory].lock()) return reader;
  struct Leased {
    std::unique_ptr<Lease> lease;
    std::unique_ptr<CheckpointReader> reader;
  };
  auto leased = std::make_shared<Leased>();
  leased->lease = Lease::take(vfs_, directory);
  leased->reader = TRY(open_checkpoint(vfs_, directory));
  const std::shared_ptr<CheckpointReader> reader(leased, leased->reader.get());
  readers_[directory] = reader;
  return reader;
}

Result<std::shared_ptr<MemorySource>> Stores::open_memory(const std::string& name,
                                                          MemoryPlace place) {
  const std::lock_guard lock(opening_);
  std::erase_if(memories_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = memories_[{place.root, name}];
  if (auto source = known.lock()) return source;
  std::shared_ptr<MemorySource> source = TRY(MemorySource::open(std::move(place)));
  known = source;
  return source;
}

Result<Peer> Stores::peer(bool loopback) {
  const std::lock_guard lock(mutex_);
  auto& server = peers_[loopback];
  if (!server) {
    const auto find = [this](const std::string& root, int rank,
                             SlotId id) -> std::optional<Snapshot> {
      for (Snapshot& held : snapshots(root)) {
        if (held.rank == rank && held.id == id) return std::move(held);
      }
      return std::nullopt;
    };
    server = TRY(PeerServer::start(loopback, find));
  }
  return Peer{.host = "", .port = server->port(), .token = server->token()};
}

std::shared_future<void> Stores::begin_end(std::unique_ptr<Leader> leader) {
  std::promise<void> promise;
  auto ended = promise.get_future().share();
  std::thread([leader = std::move(leader), promise = std::move(promise)]() mutable {
    leader.reset();
    promise.set_value();
  }).detach();
  return ended;
}

bool Stores::end_leader(const std::string& root, Duration limit) {
  std::shared_future<void> ended;
  {
    const std::lock_guard lock(mutex_);
    if (auto leader = std::exchange(leaders_[root], nullptr)) {
      // A trainer of the next generation waits.
      leader->hurry();
      ending_[root] = begin_end(std::move(leader));
    }
    ended = ending_[root];
  }
  return !ended.valid() || ended.wait_for(limit) == std::future_status::ready;
}

void Stores::set_leader(const std::string& root, std::unique_ptr<Leader> leader) {
  const std::lock_guard lock(mutex_);
  leaders_[root].swap(leader);
  if (leader == nullptr) return;
  leader->hurry();
  ending_[root] = begin_end(std::move(leader));
}

void Stores::finish(Duration limit) {
  const TimePoint deadline = system_clock().now() + limit;
  const auto left = [&] { return std::max(Duration(0), deadline - system_clock().now()); };
  std::vector<std::shared_ptr<RankStore>> stores;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, store] : stores_) stores.push_back(store);
  }
  for (const auto& store : stores) store->finish_saves(left());
  // A leader's end waits for its commit and its pruning.
  std::vector<std::shared_future<void>> ends;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [root, leader] : leaders_) {
      if (leader != nullptr) ends.push_back(begin_end(std::move(leader)));
    }
    for (const auto& [root, ended] : ending_) ends.push_back(ended);
  }
  for (const auto& ended : ends) {
    if (ended.valid()) ended.wait_for(std::max<Duration>(left(), kLastCommitLimit));
  }
}

void run_session(Vfs& vfs, Stores& stores, Fd connection) {
  Session(vfs, stores, std::move(connection)).run();
}

}  // namespace shanty::ckpt
