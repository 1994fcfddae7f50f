#include "coordinator/account.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hash.h"
#include "telemetry/report.h"

namespace shanty {
namespace {

using nlohmann::json;

std::string_view event_kind_of(gang::Note::Kind kind) {
  switch (kind) {
    case gang::Note::Kind::kAgentJoined:
      return event_kind::kAgentJoined;
    case gang::Note::Kind::kAgentLost:
      return event_kind::kAgentLost;
    case gang::Note::Kind::kAgentLeft:
      return event_kind::kAgentLeft;
    case gang::Note::Kind::kAgentRefused:
      return event_kind::kAgentRefused;
    case gang::Note::Kind::kWaiting:
      return event_kind::kWaiting;
    case gang::Note::Kind::kWorldFormed:
      return event_kind::kWorldFormed;
    case gang::Note::Kind::kWorkerFailed:
      return event_kind::kWorkerFailed;
    case gang::Note::Kind::kGenerationEnded:
      return event_kind::kGenerationEnded;
    case gang::Note::Kind::kRestarting:
      return event_kind::kRestarting;
    case gang::Note::Kind::kStopping:
      return event_kind::kStopping;
    case gang::Note::Kind::kRecovered:
      return event_kind::kRecovered;
    case gang::Note::Kind::kEnded:
      return event_kind::kEnded;
  }
  return event_kind::kWarning;
}

json failure_json(const gang::Failure& failure) {
  json out = {{"unix_ns", failure.unix_ns},
              {"generation", failure.generation},
              {"rank", failure.rank},
              {"node_rank", failure.node_rank},
              {"node", failure.node},
              {"reason", failure.reason},
              {"first_error", failure.first_error},
              {"signature", failure.signature}};
  if (failure.step != gang::kNoStep) out["step"] = failure.step;
  return out;
}

gang::Failure parse_failure(const json& object) {
  return {.unix_ns = object.value("unix_ns", int64_t{0}),
          .generation = object.value("generation", uint64_t{0}),
          .rank = object.value("rank", -1),
          .node_rank = object.value("node_rank", -1),
          .node = object.value("node", ""),
          .reason = object.value("reason", ""),
          .first_error = object.value("first_error", ""),
          .step = object.value("step", gang::kNoStep),
          .signature = object.value("signature", "")};
}

std::string extra_of(const gang::Note& note) {
  json extra = json::object();
  if (note.failure) extra = failure_json(*note.failure);
  if (note.world) {
    extra["world_size"] = note.world->world_size;
    extra["nodes"] = note.world->node_count;
    extra["master"] = fmt::format("{}:{}", note.world->master_addr, note.world->master_port);
  }
  if (!note.node.empty()) extra["node"] = note.node;
  if (note.kind == gang::Note::Kind::kEnded) {
    extra["outcome"] = gang::to_string(note.outcome);
    extra["reason"] = note.text;
  }
  return extra.empty() ? "" : extra.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

gang::Outcome parse_outcome(const std::string& text) {
  for (const auto outcome :
       {gang::Outcome::kSucceeded, gang::Outcome::kFailed, gang::Outcome::kStopped}) {
    if (text == gang::to_string(outcome)) return outcome;
  }
  return gang::Outcome::kNone;
}

constexpr const char* kComparedFacts[] = {"python", "torch", "gpu_driver", "shanty"};

}  // namespace

Result<Account> Account::open(const RunDir& run) {
  return Account(run, TRY(EventWriter::open(run.coordinator_events(), "coordinator")));
}

void Account::tell(const Status& status) {
  if (status.ok() || told_) return;
  told_ = true;
  fmt::print(stderr, "shanty coordinator: {}; the job goes on without it\n",
             status.error().message);
}

void Account::append(Event event) {
  if (event.unix_ns == 0) event.unix_ns = system_clock().unix_time_ns();
  tell(events_.append(std::move(event)));
}

void Account::record(const gang::Note& note) {
  append({.kind = std::string(event_kind_of(note.kind)),
          .generation = note.generation,
          .rank = note.failure ? note.failure->rank : -1,
          .node_rank = note.node_rank,
          .text = note.text,
          .extra_json = extra_of(note)});
}

void Account::record(std::string_view kind, std::string text) {
  append({.kind = std::string(kind), .text = std::move(text)});
}

void Account::record_facts(int node_rank, const std::string& facts_json) {
  if (facts_[node_rank] == facts_json) return;
  compare_facts(node_rank, facts_json);
  facts_[node_rank] = facts_json;
  json line = {{"v", 1}, {"node_rank", node_rank}};
  line.update(json::parse(facts_json, nullptr, false));
  std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  const std::string crc = fmt::format(",\"crc\":\"{:08x}\"}}\n", crc32c(text));
  auto file = AppendFile::open(run_.versions_jsonl());
  tell(file.ok() ? file->append(text + crc) : Status(file.error()));
}

void Account::compare_facts(int node_rank, const std::string& facts_json) {
  const json mine = json::parse(facts_json, nullptr, false);
  for (const auto& [other_rank, text] : facts_) {
    if (other_rank == node_rank || text.empty()) continue;
    const json other = json::parse(text, nullptr, false);
    for (const char* key : kComparedFacts) {
      if (!mine.contains(key) || !other.contains(key) || mine[key] == other[key]) continue;
      record(event_kind::kWarning, fmt::format("node {} has {} {}, node {} has {}", node_rank, key,
                                               mine[key].dump(), other_rank, other[key].dump()));
    }
    return;  // the others were compared with this one before
  }
}

void Account::write_live(const LiveState& state) {
  tell(shanty::write_live(run_.live_json(), state));
}

void Account::write_report() {
  tell(shanty::write_report(run_.report_json(), build_report(run_, system_clock().unix_time_ns())));
}

Account::Past Account::read_past(const RunDir& run) {
  Past past;
  EventReader reader(run.coordinator_events());
  for (const Event& event : reader.poll()) {
    const json extra = json::parse(event.extra_json.empty() ? "{}" : event.extra_json, nullptr,
                                   /*allow_exceptions=*/false);
    if (!extra.is_object()) continue;
    try {
      if (event.kind == event_kind::kGenerationEnded && extra.contains("reason")) {
        past.failures.push_back(parse_failure(extra));
      }
      if (event.kind == event_kind::kEnded) {
        past.outcome = parse_outcome(extra.value("outcome", ""));
        past.reason = event.text;
      }
      past.generation = std::max(past.generation, event.generation);
    } catch (const json::exception&) {
      continue;  // a field of the wrong type: not ours
    }
  }
  return past;
}

}  // namespace shanty
