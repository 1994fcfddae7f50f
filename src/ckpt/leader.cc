#include "ckpt/leader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <sys/statvfs.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/units.h"
#include "ckpt/background.h"
#include "ckpt/channel.h"
#include "ckpt/lease.h"
#include "ckpt/open_checkpoint.h"
#include "ckpt/rank_store.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "ckpt/store_files.h"
#include "ckpt/task_thread.h"
#include "os/files.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;
using Answer = ChannelServer::Answer;

constexpr size_t kTokenBytes = 32;
constexpr size_t kMaxRememberedSaves = 16;
constexpr int kVerifyThreads = 1;
// The newest may still be taken back, so the one before it stays until all trainers have ended.
constexpr size_t kMinKept = 2;
// On one machine a connection is closed only by an end of it; else the network may be away.
constexpr Duration kLoopbackLostLimit = std::chrono::seconds(5);
constexpr double kSlowSaveSeconds = 600;
constexpr uint64_t kSpeedProbeBytes = uint64_t{16} << 20;
// Of the free space, for saves go on meanwhile.
constexpr uint64_t kSpeedProbeShare = 32;

// One question of each rank, answered together.
struct Gathering {
  std::map<int, std::string> bodies;
  std::map<int, Answer> answers;
  bool closed = false;
  std::string lost;  // why not all can answer any more

  void add(const Question& question, Answer answer) {
    bodies[question.rank] = question.body;
    answers[question.rank] = std::move(answer);
  }
  void close(const Result<std::string>& body) {
    closed = true;
    for (const auto& [rank, answer] : answers) answer(body);
    answers.clear();
  }
};

struct Save {
  std::string key;  // "step.number"
  CheckpointId id;
  std::optional<Result<std::string>> directory;  // {"path"...} once it is made
  Gathering receipts;
  std::optional<Result<std::string>> end;
};

json finding(const char* severity, std::string message) {
  return {{"severity", severity}, {"message", std::move(message)}};
}

class LeaderImpl : public Leader {
 public:
  LeaderImpl(Vfs& vfs, Options options)
      : vfs_(vfs), options_(std::move(options)), token_(hex(secure_random_bytes(kTokenBytes))) {}
  ~LeaderImpl() override {
    server_.reset();
    tasks_.post([this] {
      if (kept_.exchange(options_.keep) != options_.keep && has_committed_) prune_later();
    });
  }

  Status open() {
    auto server = ChannelServer::listen(
        {.host = options_.loopback ? "127.0.0.1" : "",
         .token = token_,
         .on_lost = [this](int rank) { tasks_.post([this, rank] { on_lost(rank); }); },
         .lost_limit = options_.loopback ? std::min(options_.lost_limit, kLoopbackLostLimit)
                                         : options_.lost_limit},
        [this](const Question& question, const Answer& answer) {
          tasks_.post([this, question, answer] { on_question(question, answer); });
        });
    if (!server) return server.error();
    server_ = std::move(*server);
    tasks_.post([this] { discard(hold_root(), "the first save says what is wrong"); });
    return {};
  }

  uint16_t port() const override { return server_->port(); }
  const std::string& token() const override { return token_; }
  void hurry() override { hurried_ = true; }

 private:
  // All below runs on the task thread: saves of one job follow one another anyway, and storage
  // may block.

  void on_question(const Question& question, const Answer& answer) {
    if (question.rank < 0 || question.rank >= options_.world_size) {
      return answer(Error{
          fmt::format("rank {} is outside of a world of {}", question.rank, options_.world_size)});
    }
    if (question.kind == "dir") return on_dir(question, answer);
    if (question.kind == "receipt") return on_receipt(question, answer);
    if (question.kind == "fail") return on_fail(question, answer);
    if (question.kind == "spoil") return on_spoil(question, answer);
    if (question.kind == "probe") return on_probe(question, answer);
    if (question.kind == "probed")
      return gather(probed_, question, answer, &LeaderImpl::judge_probes);
    if (question.kind == "copied")
      return gather(copied_, question, answer, &LeaderImpl::list_ranks);
    if (question.kind == "find") return gather(finds_, question, answer, &LeaderImpl::choose);
    if (question.kind == "loaded") return gather(loads_, question, answer, &LeaderImpl::agree);
    answer(Error{"rank 0's checkpoint engine does not know the question " + question.kind});
  }

  // Ends of saves stay for a while: all ranks hear of them, the late ones too.
  Save* find_save(const std::string& key) {
    const auto found = std::find_if(saves_.begin(), saves_.end(),
                                    [&](const Save& save) { return save.key == key; });
    return found == saves_.end() ? nullptr : &*found;
  }

  Save& add_save(const std::string& key) {
    if (saves_.size() >= kMaxRememberedSaves) {
      if (!saves_.front().end) give_up(saves_.front(), "many later ones were begun");
      saves_.pop_front();
    }
    Save& save = saves_.emplace_back();
    save.key = key;
    save.id.step = std::strtoull(key.c_str(), nullptr, 10);
    return save;
  }

  void give_up(Save& save, const std::string& why) {
    if (save.directory && save.directory->ok()) abandon(vfs_, **fence_, save.id);
    finish(save, Error{why});
  }

  static uint64_t number_of(const Save& save) {
    return std::strtoull(save.key.c_str() + save.key.find('.') + 1, nullptr, 10);
  }

  // Nobody waits for all ranks to have copied what one of them never will.
  void end_copies(const Save& save, const std::string& why) {
    Gathering& copies =
        copied_[fmt::format("{}.{}.{}", save.id.step, options_.generation, number_of(save))];
    copies.lost = why;
    copies.close(Error{why});
    if (copied_.size() > kMaxRememberedSaves) forget_one(copied_);
  }

  void on_dir(const Question& question, const Answer& answer) {
    Save* known = find_save(question.key);
    Save& save = known != nullptr ? *known : add_save(question.key);
    if (save.end) return answer(*save.end);
    if (!save.directory) save.directory = make_directory(save);
    if (!save.directory->ok()) save.end = save.directory->error();
    answer(*save.directory);
  }

  // Again where it failed: storage that was full or away at the start may be well by now. Also
  // where somebody has removed all that was there, and nobody else has taken it over.
  Status hold_root() {
    const auto is_gone = [this] {
      const auto holder = vfs_.info(join_path(options_.root, kGenerationName));
      return holder.ok() && !holder->exists;
    };
    if (!fence_ || !fence_->ok() || is_gone()) {
      fence_ = open_root(vfs_, options_.root, options_.run, options_.generation);
    }
    if (!fence_->ok()) return fence_->error();
    return {};
  }

  Result<std::string> make_directory(Save& save) {
    TRY_STATUS(hold_root());
    save.id = TRY(next_id(vfs_, **fence_, save.id.step));
    TRY_STATUS(make_in_progress(vfs_, **fence_, save.id));
    return print_json(json{{"step", save.id.step},
                           {"generation", save.id.generation},
                           {"attempt", save.id.attempt},
                           {"path", options_.root + "/" + in_progress_name(save.id)},
                           {"link", !found_damage_}});
  }

  void on_receipt(const Question& question, const Answer& answer) {
    Save* save = find_save(question.key);
    if (save == nullptr) return answer(Error{"rank 0 knows nothing of the save " + question.key});
    if (save->end) return answer(*save->end);
    save->receipts.add(question, answer);
    if (save->receipts.bodies.size() < static_cast<size_t>(options_.world_size)) return;
    const auto committed = commit_receipts(*save);
    if (!committed.ok()) abandon(vfs_, **fence_, save->id);
    finish(*save, committed);
    if (!committed.ok()) return;
    has_committed_ = true;
    prune_later();
  }

  Result<std::string> commit_receipts(Save& save) {
    std::vector<Receipt> receipts;
    std::string global = "{}";
    for (const auto& [rank, body] : save.receipts.bodies) {
      const auto outer = parse_json(body);
      if (!outer || !outer->is_object()) return Error{"a receipt that is no JSON"};
      receipts.push_back(TRY(decode_receipt(json_string(*outer, "receipt"))));
      receipts.back().rank = rank;
      if (rank == 0) global = json_string(*outer, "global", "{}");
    }
    const Committed done = TRY(
        commit(vfs_, **fence_, save.id, options_.world_size, receipts, global, number_of(save)));
    (*fence_)->newest_unix_ns = done.created_unix_ns;
    tell_run(json{{"path", done.directory}, {"step", save.id.step}, {"by", "shanty"}});
    return print_json(json{{"directory", done.directory}, {"note", done.note}});
  }

  // For the report (docs/formats/run-directory.md).
  void tell_run(json line) const {
    if (options_.run_dir.empty()) return;
    line["unix_ns"] = system_clock().unix_time_ns();
    auto file = AppendFile::open(options_.run_dir + "/saves/checkpointer.jsonl");
    if (file) discard(file->append(print_json(line) + "\n"), "the report is the poorer for it");
  }

  void finish(Save& save, const Result<std::string>& how) {
    save.end = how;
    save.receipts.close(how);
    save.receipts.bodies.clear();
  }

  // Answers with why the save had ended before, if it had: the directory is gone then, and what
  // this rank met is only a consequence.
  void on_fail(const Question& question, const Answer& answer) {
    Save* save = find_save(question.key);
    const bool ended = save != nullptr && save->end;
    answer(ended && !save->end->ok() ? save->end->error().message : std::string());
    if (save == nullptr || ended) return;
    give_up(*save,
            fmt::format("rank {} could not write its part: {}", question.rank, question.body));
  }

  // Its trainers say hello to another engine at the next save; the others must not wait until then.
  void on_lost(int rank) {
    lease_.reset();
    const std::string why = fmt::format("rank {}'s checkpoint engine is gone", rank);
    for (Save& save : saves_) {
      if (save.end || save.receipts.bodies.contains(rank)) continue;
      give_up(save, why);
      end_copies(save, why);
    }
    for (auto* all : {&probed_, &copied_, &finds_, &loads_}) {
      for (auto& [key, gathering] : *all) {
        if (gathering.closed || gathering.bodies.contains(rank)) continue;
        gathering.lost = why;
        gathering.close(Error{why});
      }
    }
  }

  // A rank has no part of it, or not what it should be: the checkpoint must not be, or no longer.
  // Others may not have begun it yet.
  void on_spoil(const Question& question, const Answer& answer) {
    Save* known = find_save(question.key);
    Save& save = known != nullptr ? *known : add_save(question.key);
    const std::string why = fmt::format("rank {} gave it up: {}", question.rank, question.body);
    end_copies(save, why);
    if (!save.end) {
      give_up(save, why);
    } else if (save.end->ok()) {
      const auto trashed = move_to_trash(vfs_, options_.root, visible_name(save.id));
      if (!trashed.ok()) return answer(trashed.error());
      save.end = Error{why};
      discard(delete_tree(vfs_, *trashed), "the next process that opens the root empties .trash/");
    }
    answer(std::string());
  }

  // Beside the next save: reading back what was committed takes as long as writing it did.
  void prune_later() {
    if (prune_waits_.exchange(true)) return;
    pruning_.post([this] {
      prune_waits_ = false;
      work_in_background();
      prune_old();
    });
  }

  void prune_old() {
    bool found_damage = false;
    const auto is_whole_now = [&](const Listed& listed) {
      const auto damage = verify_checkpoint(vfs_, listed.directory, kVerifyThreads, &hurried_);
      if (hurried_) return false;
      const bool whole = damage.empty();
      if (!whole) tell_damage(listed, damage);
      found_damage = found_damage || !whole;
      found_damage_ = found_damage;
      return whole;
    };
    const auto pruned =
        prune(vfs_, options_.root, {.keep = kept_, .dry_run = false, .is_whole = is_whole_now});
    // The next save tries again, and says why storage refuses if it does.
    discard(pruned, "old checkpoints are only in the way");
  }

  // Once of each.
  void tell_damage(const Listed& listed, const std::vector<Damage>& damage) {
    if (!told_damaged_.insert(listed.directory).second) return;
    const std::string why =
        fmt::format("{} does not read back as it was written: {}; older checkpoints are kept",
                    listed.directory, describe(damage));
    fmt::print(stderr, "shanty: {}\n", why);
    tell_run(json{{"step", listed.id.step}, {"failed", why}});
  }

  // Questions that need every rank.

  // The keys tell nothing of which is the oldest; one that is open is waited for.
  static void forget_one(std::map<std::string, Gathering>& all) {
    const auto closed =
        std::find_if(all.begin(), all.end(), [](const auto& one) { return one.second.closed; });
    if (closed != all.end()) all.erase(closed);
  }

  using Judge = Result<std::string> (LeaderImpl::*)(const Gathering&);

  void gather(std::map<std::string, Gathering>& all, const Question& question, const Answer& answer,
              Judge judge) {
    Gathering& gathering = all[question.key];
    if (!gathering.lost.empty()) return answer(Error{gathering.lost});
    gathering.add(question, answer);
    if (gathering.bodies.size() < static_cast<size_t>(options_.world_size)) return;
    // Closed ones stay, so that a rank whose answer was lost with its connection may ask again.
    gathering.close((this->*judge)(gathering));
    if (all.size() > kMaxRememberedSaves) forget_one(all);
  }

  void on_probe(const Question& question, const Answer& answer) {
    if (!probe_written_) {
      probe_ = std::string(kProbePrefix) + hex(secure_random_bytes(8));
      probe_written_ = write_probe();
    }
    if (!probe_written_->ok()) return answer(probe_written_->error());
    answer(
        print_json(json{{"path", options_.root + "/" + probe_},
                        {"content", probe_},
                        {"mine", fmt::format("{}/{}-{}", options_.root, probe_, question.rank)}}));
  }

  Status write_probe() {
    TRY_STATUS(hold_root());
    const std::string path = options_.root + "/" + probe_;
    std::string content = probe_;
    content.resize(std::max<size_t>(probe_.size(), probe_bytes()));
    const auto begin = std::chrono::steady_clock::now();
    TRY_STATUS(write_new_file(vfs_, path, content));
    TRY_STATUS(vfs_.sync_directory(options_.root));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    bytes_per_second_ = static_cast<double>(content.size()) / std::max(took.count(), 1e-6);
    return {};
  }

  std::optional<uint64_t> free_bytes() const {
    struct statvfs space{};
    if (::statvfs(options_.root.c_str(), &space) != 0) return std::nullopt;
    return uint64_t{space.f_bavail} * space.f_frsize;
  }

  uint64_t probe_bytes() const {
    const auto free = free_bytes();
    return free ? std::min(kSpeedProbeBytes, *free / kSpeedProbeShare) : kSpeedProbeBytes;
  }

  Result<std::string> judge_probes(const Gathering& gathering) {
    json findings = json::array();
    uint64_t bytes = 0;
    for (const auto& [rank, body] : gathering.bodies) {
      const auto said = parse_json(body);
      if (!said || !said->is_object()) continue;
      bytes += json_uint64(*said, "bytes");
      const std::string node = json_string(*said, "node");
      const std::string error = json_string(*said, "error");
      const std::string theirs = json_string(*said, "mine");
      if (!error.empty()) {
        findings.push_back(finding(
            "error", fmt::format("the checkpoint directory {} is not the same on {} (rank {}) as "
                                 "on rank 0's node: {}; every node must see one shared directory",
                                 options_.root, node, rank, error)));
        continue;
      }
      if (rank == 0) continue;
      const auto seen = vfs_.info(theirs);
      if (!seen || !seen->exists) {
        findings.push_back(finding(
            "error", fmt::format("rank {} on {} wrote {}, but rank 0's node does not see it; every "
                                 "node must see one shared directory",
                                 rank, node, theirs)));
      }
      discard(vfs_.remove_file(theirs), "best effort");
    }
    discard(vfs_.remove_file(options_.root + "/" + probe_), "best effort");
    probe_written_.reset();
    judge_space(bytes, findings);
    return print_json(json{{"findings", findings}, {"bytes_per_second", bytes_per_second_}});
  }

  void judge_space(uint64_t bytes, json& findings) const {
    if (const auto free = free_bytes()) {
      const uint64_t wanted = bytes * (options_.keep + 1);
      if (*free < bytes) {
        findings.push_back(
            finding("error", fmt::format("{} has {} free, one checkpoint needs {}", options_.root,
                                         format_bytes(*free), format_bytes(bytes))));
      } else if (*free < wanted) {
        findings.push_back(finding(
            "warning",
            fmt::format("{} has {} free; {} checkpoints and one being written need {}",
                        options_.root, format_bytes(*free), options_.keep, format_bytes(wanted))));
      }
    }
    const double seconds = static_cast<double>(bytes) / std::max(bytes_per_second_, 1.0);
    if (seconds > kSlowSaveSeconds) {
      findings.push_back(
          finding("warning",
                  fmt::format("{} took {}/s in a trial: a checkpoint of {} will take {:.0f} min "
                              "to be durable",
                              options_.root, format_bytes(static_cast<uint64_t>(bytes_per_second_)),
                              format_bytes(bytes), seconds / 60)));
    }
  }

  // Who has which rank's slot of one save.
  struct InMemory {
    int world_size = 0;
    bool odd = false;  // the ranks do not agree on the world
    std::map<int, json> holders;
  };

  static bool are_numbers(const json& values, size_t count) {
    return values.is_array() && values.size() == count &&
           std::all_of(values.begin(), values.end(), [](const json& value) {
             return value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
           });
  }

  // Of the first three of its numbers.
  static SlotId id_of(const json& numbers) {
    return {numbers[0].get<uint64_t>(), numbers[1].get<uint64_t>(), numbers[2].get<uint64_t>()};
  }

  static std::string name_of(SlotId id) {
    return fmt::format("memory:{}.{}.{}", id.step, id.generation, id.number);
  }

  void note_spoiled(const json& said) {
    const json* spoiled = json_array(said, "spoiled");
    if (spoiled == nullptr) return;
    for (const json& id : *spoiled) {
      if (are_numbers(id, 3)) bad_.insert(name_of(id_of(id)));
    }
  }

  static void note_slots(const json& said, std::map<SlotId, InMemory>& saves) {
    const json* slots = json_array(said, "slots");
    const json* peer = json_object(said, "peer");
    if (slots == nullptr || peer == nullptr) return;
    for (const json& slot : *slots) {
      if (!are_numbers(slot, 5)) continue;
      const int rank = static_cast<int>(slot[3].get<int64_t>());
      const int world_size = static_cast<int>(slot[4].get<int64_t>());
      InMemory& save = saves[id_of(slot)];
      save.odd = save.odd || (save.world_size != 0 && save.world_size != world_size);
      save.world_size = world_size;
      json holder = *peer;
      holder["rank"] = rank;
      save.holders[rank] = std::move(holder);
    }
  }

  // Generations of different jobs in the same directory say nothing about each other.
  static bool is_older(const SlotId& a, const SlotId& b) {
    if (a.number == 0 || b.number == 0) {
      return std::tie(a.step, a.generation) < std::tie(b.step, b.generation);
    }
    return a.number < b.number;
  }

  static bool is_whole(const InMemory& save) {
    return !save.odd && save.world_size > 0 &&
           save.holders.size() == static_cast<size_t>(save.world_size) &&
           save.holders.begin()->first == 0 && save.holders.rbegin()->first == save.world_size - 1;
  }

  // The newest save that is whole in the slots of all engines, unless storage has a newer one.
  Result<std::string> choose(const Gathering& gathering) {
    std::optional<uint64_t> wanted;
    std::map<SlotId, InMemory> saves;
    json findings = json::array();
    for (const auto& [rank, body] : gathering.bodies) {
      const auto said = parse_json(body);
      if (!said || !said->is_object()) return Error{"a question that is no JSON"};
      if (said->contains("step")) wanted = json_uint64(*said, "step");
      if (const std::string bad = json_string(*said, "bad"); !bad.empty()) bad_.insert(bad);
      note_spoiled(*said);
      note_slots(*said, saves);
    }
    std::vector<std::pair<std::string, std::string>> skipped;
    const auto disk = newest_on_disk(wanted, skipped);
    for (const auto& [directory, why] : skipped) {
      findings.push_back(finding("warning", fmt::format("passed over {}: {}", directory, why)));
    }
    if (!disk) return disk.error();
    for (auto save = saves.rbegin(); save != saves.rend(); ++save) {
      const SlotId id = save->first;
      const std::string name = name_of(id);
      if ((wanted && id.step != *wanted) || bad_.contains(name) || !is_whole(save->second))
        continue;
      if (*disk && is_older(id, (*disk)->id)) break;
      lease_.reset();
      json holders = json::array();
      for (const auto& [rank, holder] : save->second.holders) holders.push_back(holder);
      return print_json(json{{"source", "memory"},
                             {"directory", name},
                             {"step", id.step},
                             {"generation", id.generation},
                             {"number", id.number},
                             {"holders", holders},
                             {"findings", findings}});
    }
    if (!*disk) return print_json(json{{"source", nullptr}, {"findings", findings}});
    return print_json(json{{"source", "disk"},
                           {"directory", (*disk)->directory},
                           {"step", (*disk)->id.step},
                           {"findings", findings}});
  }

  struct OnDisk {
    SlotId id;
    std::string directory;
  };

  Result<std::optional<OnDisk>> newest_on_disk(
      std::optional<uint64_t> wanted, std::vector<std::pair<std::string, std::string>>& skipped) {
    const auto root = TRY(vfs_.info(options_.root));
    if (!root.exists) return std::optional<OnDisk>();
    for (const Listed& listed : TRY(list_checkpoints(vfs_, options_.root))) {
      if (wanted && listed.id.step != *wanted) continue;
      if (listed.state == CheckpointState::kInProgress) continue;
      if (listed.state == CheckpointState::kDamaged) {
        skipped.emplace_back(listed.directory, listed.problem);
        continue;
      }
      if (bad_.contains(listed.directory)) {
        skipped.emplace_back(listed.directory, "damaged, as said before");
        continue;
      }
      lease_ = Lease::take(vfs_, listed.directory);
      const auto reader = open_checkpoint(vfs_, listed.directory);
      if (!reader) {
        lease_.reset();
        skipped.emplace_back(listed.directory, reader.error().message);
        continue;
      }
      const SlotId id{listed.id.step, listed.id.generation, listed.summary->number};
      return std::optional<OnDisk>({id, listed.directory});
    }
    return std::optional<OnDisk>();
  }

  Result<std::string> list_ranks(const Gathering& gathering) {
    json ranks = json::array();
    for (const auto& [rank, body] : gathering.bodies) {
      auto said = parse_json(body);
      if (!said || !said->is_object()) return Error{"a question that is no JSON"};
      if (json_bool(*said, "failed")) return Error{fmt::format("rank {} has no copy", rank)};
      (*said)["rank"] = rank;
      ranks.push_back(std::move(*said));
    }
    return print_json(json{{"ranks", ranks}});
  }

  Result<std::string> agree(const Gathering& gathering) {
    lease_.reset();
    const bool all_ok = std::all_of(gathering.bodies.begin(), gathering.bodies.end(),
                                    [](const auto& said) { return said.second == "ok"; });
    return print_json(json{{"all_ok", all_ok}});
  }

  Vfs& vfs_;
  const Options options_;
  const std::string token_;
  std::optional<Result<Fence>> fence_;
  std::deque<Save> saves_;  // as they were begun
  std::map<std::string, Gathering> probed_;
  std::map<std::string, Gathering> copied_;
  std::map<std::string, Gathering> finds_;
  std::map<std::string, Gathering> loads_;
  std::set<std::string> bad_;
  std::unique_ptr<Lease> lease_;  // of what was found, until all ranks have theirs or have loaded
  std::string probe_;
  std::optional<Status> probe_written_;
  double bytes_per_second_ = 0;
  bool has_committed_ = false;
  std::atomic<bool> prune_waits_ = false;
  std::atomic<bool> hurried_ = false;
  std::atomic<size_t> kept_ = std::max(options_.keep, kMinKept);
  std::atomic<bool> found_damage_ = false;  // when the newest was read back: it is not linked to
  std::set<std::string> told_damaged_;      // used by the pruning only
  TaskThread pruning_;
  TaskThread tasks_;
  std::unique_ptr<ChannelServer> server_;
};

}  // namespace

Result<std::unique_ptr<Leader>> Leader::start(Vfs& vfs, Options options) {
  auto leader = std::make_unique<LeaderImpl>(vfs, std::move(options));
  TRY_STATUS(leader->open());
  return std::unique_ptr<Leader>(std::move(leader));
}

}  // namespace shanty::ckpt
