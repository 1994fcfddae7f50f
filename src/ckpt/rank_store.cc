#include "ckpt/rank_store.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ckpt/arrival.h"
#include "ckpt/neighbour.h"
#include "ckpt/parallel.h"
#include "ckpt/pull.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr size_t kMaxRememberedSaves = 32;
constexpr size_t kMaxRememberedSpoils = 8;
constexpr int kWritesInFlight = 6;  // of 4 MiB; with two a disk of the cloud is idle half the time
constexpr Duration kDirectoryLimit = std::chrono::minutes(2);
constexpr Duration kCommitLimit = std::chrono::minutes(30);

// Names a save in questions to the leader.
std::string key_of(SlotId id) { return fmt::format("{}.{}", id.step, id.number); }

double seconds_since(TimePoint begin) {
  return std::chrono::duration<double>(system_clock().now() - begin).count();
}

}  // namespace

std::string state_path(int rank) { return fmt::format("state/rank-{:05}.json", rank); }

Receipt make_receipt(const RankLayout& layout, int rank) {
  Receipt receipt{.rank = rank,
                  .files = {},
                  .tensors = stored_tensors(layout.specs, layout.layout),
                  .aliases = layout.aliases};
  for (const FileImage& image : layout.layout.files) {
    receipt.files.push_back(
        {.path = image.path, .rank = rank, .bytes = image.bytes, .crc32c = {}, .xxh3 = {}});
  }
  return receipt;
}

struct RankStore::Job {
  Request request;
  std::shared_ptr<Arena> arena;  // the store may get another one meanwhile
  std::shared_ptr<const RankLayout> layout;
  TimePoint began;
  uint64_t order = 0;  // its key in saves_
  std::atomic<bool> cancel = false;
  Arrival copied;  // in the slot
};

RankStore::~RankStore() {
  std::unique_lock lock(mutex_);
  cancel_all();
  changed_.wait(lock, [&] { return running_.empty(); });
}

void RankStore::take_over(Duration limit) {
  std::unique_lock lock(mutex_);
  cancel_all();
  layout_ = nullptr;
  changed_.notify_all();
  changed_.wait_for(lock, limit, [&] { return running_.empty(); });
}

void RankStore::cancel_all() {
  for (const auto& job : running_) {
    job->cancel = true;
    job->request.channel->abort();
  }
}

void RankStore::spoil(SlotId id) {
  const std::lock_guard lock(mutex_);
  for (const auto& job : running_) job->cancel = job->cancel || job->request.id == id;
  std::erase_if(contents_, [&](const SlotContent& content) { return content.id == id; });
  std::erase_if(copies_, [&](const Snapshot& copy) { return copy.id == id; });
  spoiled_.push_back(id);
  if (spoiled_.size() > kMaxRememberedSpoils) spoiled_.pop_front();
}

std::vector<SlotId> RankStore::spoiled() const {
  const std::lock_guard lock(mutex_);
  return {spoiled_.begin(), spoiled_.end()};
}

bool RankStore::is_spoiled(SlotId id) const {
  return std::find(spoiled_.begin(), spoiled_.end(), id) != spoiled_.end();
}

bool RankStore::finish_saves(Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return running_.empty(); });
}

Result<std::shared_ptr<const RankLayout>> RankStore::set_layout(
    std::vector<PieceSpec> specs, std::vector<size_t> pulls,
    std::map<std::string, std::string> aliases) {
  auto layout = std::make_shared<RankLayout>();
  layout->layout = TRY(make_layout(specs, rank_));
  layout->specs = std::move(specs);
  layout->pulls = std::move(pulls);
  layout->aliases = std::move(aliases);
  const std::lock_guard lock(mutex_);
  layout->number = ++layouts_;
  auto arena = TRY(Arena::create(layout->layout.slot_bytes, layout->number));
  for (int slot = 0; slot < kSlots; ++slot) {
    for (const FileImage& image : layout->layout.files) {
      std::copy(image.header.begin(), image.header.end(), arena->slot(slot) + image.slot_offset);
    }
    busy_[slot] = false;
  }
  arena_ = std::move(arena);
  layout_ = std::move(layout);
  return layout_;
}

std::shared_ptr<Arena> RankStore::arena() const {
  const std::lock_guard lock(mutex_);
  return arena_;
}

Result<int> RankStore::begin(uint64_t layout, uint64_t step, Duration limit) {
  std::unique_lock lock(mutex_);
  const auto is_latest = [&] { return layout_ && layout_->number == layout; };
  const Error superseded{"beginning a checkpoint: its layout is not the latest one"};
  if (!is_latest()) return superseded;
  const auto is_newest = [&](int slot) {
    return !contents_.empty() && contents_[0].arena == arena_ && contents_[0].slot == slot;
  };
  int chosen = -1;
  const auto choose = [&] {
    if (!is_latest()) return true;
    for (int slot = 0; slot < kSlots; ++slot) {
      if (!busy_[slot] && (chosen < 0 || is_newest(chosen))) chosen = slot;
    }
    return chosen >= 0;
  };
  // Storage that hangs costs the training one such wait, not one for each save.
  if (!changed_.wait_for(lock, begin_timed_out_ ? Duration::zero() : limit, choose)) {
    const auto why = begin_timed_out_ ? std::string("as they were at the save before")
                                      : fmt::format("after {} s", limit / std::chrono::seconds(1));
    begin_timed_out_ = true;
    return Error{
        fmt::format("beginning the checkpoint of step {}: both slots are still being "
                    "written, {}; save less often, or look at the storage",
                    step, why)};
  }
  if (!is_latest()) return superseded;
  begin_timed_out_ = false;
  std::erase_if(contents_, [&](const SlotContent& content) {
    return content.arena == arena_ && content.slot == chosen;
  });
  arena_->set_step(chosen, step);
  arena_->set_state(chosen, SlotState::kFilling);
  return chosen;
}

Status RankStore::save(Request request) {
  auto job = std::make_shared<Job>();
  job->request = std::move(request);
  job->began = system_clock().now();
  const std::lock_guard lock(mutex_);
  const int slot = job->request.slot;
  if (!layout_ || layout_->number != job->request.layout) {
    return Error{"saving: its layout is not the latest one"};
  }
  if (slot < 0 || slot >= kSlots) return Error{"saving: no such slot"};
  if (busy_[slot]) return Error{"saving: that slot is being written"};
  if (job->request.addresses.size() != layout_->pulls.size()) {
    return Error{fmt::format("saving: {} addresses for {} tensors", job->request.addresses.size(),
                             layout_->pulls.size())};
  }
  job->arena = arena_;
  job->layout = layout_;
  busy_[slot] = true;
  job->order = ++begun_;
  saves_[job->order] = SaveStatus{.id = job->request.id};
  if (saves_.size() > kMaxRememberedSaves) saves_.erase(saves_.begin());
  running_.push_back(job);
  std::thread([this, job] { run(job); }).detach();
  return {};
}

// What is copied is written while the rest is. The state tells the trainer that it may go on, so it
// stays kFilling until the copy has ended, also where something failed before.
void RankStore::run(const std::shared_ptr<Job>& job) {
  std::thread copying([&] {
    const Status copied = copy(*job);
    if (copied.ok()) keep(*job);
    job->copied.finish(copied);
    const Request& request = job->request;
    if (!copied.ok()) return refuse_copies(*request.channel, request.id);
    // Best effort: without it a dead node costs what is not on storage yet.
    discard(keep_neighbours_copy(*job), "storage has the checkpoint too");
  });
  Status status = write(*job);
  const std::string error = status.ok() ? "" : status.error().message;
  // Before the other ranks have copied theirs, for which the neighbour's copy waits.
  if (!status.ok()) set(*job, SlotState::kFailed, error);
  copying.join();
  {
    const std::lock_guard lock(mutex_);
    if (job->arena == arena_) busy_[job->request.slot] = false;
    saves_[job->order].durable_seconds = seconds_since(job->began);
  }
  set(*job, status.ok() ? SlotState::kCommitted : SlotState::kFailed, error);
  const std::lock_guard lock(mutex_);
  std::erase(running_, job);
  changed_.notify_all();
}

void RankStore::keep(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    if (is_spoiled(job.request.id)) return;
    contents_.insert(contents_.begin(), {.arena = job.arena,
                                         .slot = job.request.slot,
                                         .layout = job.layout,
                                         .id = job.request.id,
                                         .world_size = job.request.world_size,
                                         .state_json = job.request.state_json,
                                         .global_json = job.request.global_json});
    if (contents_.size() > kSlots) contents_.resize(kSlots);
    saves_[job.order].copy_seconds = seconds_since(job.began);
  }
  set(job, SlotState::kCopied);
}

Status RankStore::copy(Job& job) {
  std::vector<Pull> pulls;
  const RankLayout& layout = *job.layout;
  for (size_t i = 0; i < layout.pulls.size(); ++i) {
    const size_t index = layout.pulls[i];
    const PieceSpec& spec = layout.specs[index];
    uint64_t elements = 0;
    for (const Box& box : spec.boxes) elements += TRY(element_count(box.shape));
    pulls.push_back({job.request.addresses[i],
                     job.arena->slot(job.request.slot) + layout.layout.piece_offsets[index],
                     elements * spec.element_bytes});
  }
  return pull_memory(job.request.pid, std::move(pulls), job.request.threads, &job.copied);
}

Status RankStore::write_files(Job& job, const json& place, Receipt& receipt) {
  const Request& request = job.request;
  const std::string directory = json_string(place, "path");
  const LinkSource source = json_bool(place, "link", true) ? committed() : LinkSource{};
  WriteOptions options{.threads = kWritesInFlight,
                       .limit = request.limit,
                       .cancel = &job.cancel,
                       .arrival = &job.copied};
  const auto write_file = [&](size_t i) -> Result<StoredFile> {
    const FileImage& image = job.layout->layout.files[i];
    const std::string_view bytes(job.arena->slot(request.slot) + image.slot_offset, image.bytes);
    if (!image.still) {
      return write_image(vfs_, directory, image.path, rank_, bytes, {}, options);
    }
    return link_or_write_image(vfs_, directory, image.path, rank_, bytes, source, options);
  };
  // At once, so that the storage has something to do while one of them is synced.
  std::vector<Status> written(receipt.files.size());
  for_each_parallel(written.size(), static_cast<int>(written.size()), [&](size_t i) {
    auto file = write_file(i);
    if (file.ok()) {
      receipt.files[i] = std::move(file).value();
    } else {
      written[i] = file.error();
    }
    return file.ok();
  });
  for (const Status& status : written) TRY_STATUS(status);
  options.direct = false;
  receipt.files.push_back(
      TRY(write_image(vfs_, directory, state_path(rank_), rank_, request.state_json, {}, options)));
  return sync_written(vfs_, directory, receipt.files);
}

Status RankStore::write(Job& job) {
  const Request& request = job.request;
  ChannelClient& channel = *request.channel;
  const std::string key = key_of(request.id);
  Receipt receipt = make_receipt(*job.layout, rank_);
  const auto place = ask_leader(channel, "dir", key, "", kDirectoryLimit);
  Status written = place.ok() ? write_files(job, *place, receipt) : place.error();
  const Status copied = job.copied.wait();
  if (!copied.ok()) written = copied;
  if (!written.ok() && place.ok()) {
    const auto before = channel.ask("fail", key, written.error().message, kDirectoryLimit);
    if (copied.ok() && before.ok() && !before->empty()) written = Error{*before};
  }
  TRY_STATUS(written);
  if (job.cancel) return Error{"the save was given up"};
  set(job, SlotState::kDurable);
  const json body{{"receipt", encode_receipt(receipt)}, {"global", request.global_json}};
  const json done = TRY(ask_leader(channel, "receipt", key, print_json(body), kCommitLimit));
  const std::string where = json_string(done, "directory");
  note_committed({.directory = where, .files = std::move(receipt.files)}, *job.layout);
  if (request.pin && rank_ == 0) TRY_STATUS(pin(vfs_, where, "a milestone"));
  return {};
}

LinkSource RankStore::committed() const {
  const std::lock_guard lock(mutex_);
  return committed_;
}

void RankStore::note_committed(LinkSource source, const RankLayout& layout) {
  std::erase_if(source.files, [&](const StoredFile& file) {
    return std::none_of(
        layout.layout.files.begin(), layout.layout.files.end(),
        [&](const FileImage& image) { return image.still && image.path == file.path; });
  });
  const std::lock_guard lock(mutex_);
  committed_ = std::move(source);
}

void RankStore::set(Job& job, SlotState state, const std::string& error) {
  const std::lock_guard lock(mutex_);
  job.arena->set_state(job.request.slot, state);
  SaveStatus& status = saves_[job.order];
  status.state = state;
  status.error = error;
  changed_.notify_all();
}

Result<SaveStatus> RankStore::wait(uint64_t step, uint64_t number, SlotState state,
                                   Duration limit) {
  std::unique_lock lock(mutex_);
  const auto found = std::find_if(saves_.rbegin(), saves_.rend(), [&](const auto& save) {
    const SlotId& id = save.second.id;
    return id.step == step && (number == 0 || id.number == number);
  });
  if (found == saves_.rend()) return Error{fmt::format("no save of step {} is known", step)};
  const uint64_t order = found->first;
  SaveStatus status;
  changed_.wait_for(lock, limit, [&] {
    const auto save = saves_.find(order);
    if (save != saves_.end()) status = save->second;
    return save == saves_.end() || status.state >= state;
  });
  return status;
}

std::vector<Snapshot> RankStore::snapshots() const {
  const std::lock_guard lock(mutex_);
  std::vector<Snapshot> all;
  for (const SlotContent& content : contents_) {
    Snapshot snapshot{.id = content.id,
                      .rank = rank_,
                      .world_size = content.world_size,
                      .state_json = content.state_json,
                      .global_json = content.global_json,
                      .receipt = make_receipt(*content.layout, rank_),
                      .files = {},
                      .memory = content.arena};
    for (const FileImage& image : content.layout->layout.files) {
      snapshot.files.emplace_back(
          image.path,
          std::string_view(content.arena->slot(content.slot) + image.slot_offset, image.bytes));
    }
    all.push_back(std::move(snapshot));
  }
  all.insert(all.end(), copies_.begin(), copies_.end());
  return all;
}

Status RankStore::keep_neighbours_copy(const Job& job) {
  const Request& request = job.request;
  const SlotId id = request.id;
  const auto chosen =
      TRY(choose_neighbour(*request.channel, id, rank_, request.node, request.self));
  if (!chosen) return {};
  Snapshot copy = TRY(copy_slot(chosen->peer, {.root = root_, .rank = chosen->rank, .id = id}));
  const std::lock_guard lock(mutex_);
  if (is_spoiled(id)) return {};
  // Only now: until it is whole, the copy before it is the one that counts.
  copies_.assign(1, std::move(copy));
  return {};
}

}  // namespace shanty::ckpt
