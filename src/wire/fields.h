#pragma once

#include <array>
#include <limits>
#include <string_view>

#include "wire/messages.h"

// Every field of every message, once, for both directions. A visitor has integer, number, boolean,
// text, step, choice, object, list, embedded and require; the writer in encode.cc puts fields into
// text, the reader in decode.cc takes them out and checks them.

namespace shanty::wire {

inline constexpr int kMaxNodes = 1 << 20;
inline constexpr int kMaxSignal = 128;
inline constexpr int kMaxInt = std::numeric_limits<int>::max();
inline constexpr int kMinInt = std::numeric_limits<int>::min();

inline constexpr std::array<std::string_view, 4> kAgentPhaseNames = {"idle", "running", "stopping",
                                                                     "done"};
inline constexpr std::array<std::string_view, 4> kWishNames = {"wait", "run", "stop", "end"};
inline constexpr std::array<std::string_view, 4> kOutcomeNames = {"none", "succeeded", "failed",
                                                                  "stopped"};

// Which entries of a list survive when it is too long to send.
enum class Keep { kFirst, kLast };

template <typename Visitor, typename Exit>
void exit_fields(Visitor& v, Exit& e) {
  v.require({"rank"});
  v.integer("local_rank", e.local_rank, 0, kMaxRank);
  v.integer("rank", e.rank, 0, kMaxRank);
  v.integer("exit_code", e.exit_code, kMinInt, kMaxInt);
  v.integer("signal", e.signal, 0, kMaxSignal);
  v.boolean("requested", e.requested);
  v.boolean("out_of_memory", e.out_of_memory);
  v.step("step", e.step);
  v.text("phase", e.phase);
  v.integer("exited_unix_ns", e.exited_unix_ns);
  v.integer("error_unix_ns", e.error_unix_ns);
  v.text("error", e.error);
}

template <typename Visitor, typename Failure>
void failure_fields(Visitor& v, Failure& f) {
  v.integer("unix_ns", f.unix_ns);
  v.integer("generation", f.generation);
  v.integer("rank", f.rank, -1, kMaxRank);
  v.integer("node_rank", f.node_rank, -1, kMaxNodes);
  v.text("node", f.node);
  v.text("reason", f.reason);
  v.text("first_error", f.first_error);
  v.step("step", f.step);
  v.text("signature", f.signature);
}

template <typename Visitor, typename World>
void world_fields(Visitor& v, World& w) {
  v.require({"generation"});
  v.integer("generation", w.generation);
  v.integer("node_rank", w.node_rank, 0, kMaxNodes);
  v.integer("node_count", w.node_count, 0, kMaxNodes);
  v.integer("first_rank", w.first_rank, 0, kMaxRank);
  v.integer("local_size", w.local_size, 0, kMaxRank);
  v.integer("world_size", w.world_size, 0, kMaxRank);
  v.text("master_addr", w.master_addr);
  v.integer("master_port", w.master_port);
  v.integer("restart_count", w.restart_count, 0, kMaxInt);
  v.list("history", w.history, gang::kMaxHistory, Keep::kLast,
         [](auto& inner, auto& item) { failure_fields(inner, item); });
}

template <typename Visitor, typename Report>
void report_fields(Visitor& v, Report& r) {
  v.require({"incarnation", "seq", "epoch", "phase", "slots", "world"});
  v.integer("incarnation", r.incarnation, uint64_t{1});
  v.integer("seq", r.seq);
  v.integer("epoch", r.epoch);
  v.text("node", r.node);
  v.integer("wanted_node_rank", r.wanted_node_rank, -1, kMaxNodes);
  v.integer("slots", r.slots, 0, static_cast<int>(kMaxRanksPerNode));
  v.text("address", r.address);
  v.integer("free_port", r.free_port);
  v.choice("phase", r.phase, kAgentPhaseNames);
  v.object("world", r.world, [](auto& inner, auto& world) { world_fields(inner, world); });
  v.list("exits", r.exits, kMaxExits, Keep::kFirst,
         [](auto& inner, auto& item) { exit_fields(inner, item); });
  v.boolean("leaving", r.leaving);
  v.text("leave_reason", r.leave_reason);
}

template <typename Visitor, typename Rank>
void rank_fields(Visitor& v, Rank& r) {
  v.require({"rank"});
  v.integer("rank", r.rank, 0, kMaxRank);
  v.integer("node_rank", r.node_rank, 0, kMaxNodes);
  v.integer("local_rank", r.local_rank, 0, kMaxRank);
  v.integer("pid", r.pid, 0, kMaxInt);
  v.integer("generation", r.generation);
  v.boolean("alive", r.alive);
  v.boolean("hooked", r.hooked);
  v.text("hooks_off_reason", r.hooks_off_reason);
  v.boolean("has_step", r.has_step);
  v.integer("step", r.step);
  v.integer("total_steps", r.total_steps);
  v.text("phase", r.phase);
  v.integer("phase_since_unix_ns", r.phase_since_unix_ns);
  v.integer("last_step_unix_ns", r.last_step_unix_ns);
  v.number("loss", r.loss);
  v.number("samples_per_s", r.samples_per_s);
  v.number("step_s", r.step_s);
  v.number("data_s", r.data_s);
  v.number("forward_s", r.forward_s);
  v.number("backward_s", r.backward_s);
  v.number("optimizer_s", r.optimizer_s);
  v.number("checkpoint_s", r.checkpoint_s);
  v.number("collective_s", r.collective_s);
  v.integer("steps_done", r.steps_done);
  v.integer("missed_records", r.missed_records);
  v.integer("checkpoints_saved", r.checkpoints_saved);
  v.integer("rss_bytes", r.rss_bytes);
  v.number("cpu_cores", r.cpu_cores);
  v.integer("processes", r.processes, 0, kMaxInt);
}

template <typename Visitor, typename Message>
void agent_message_fields(Visitor& v, Message& m) {
  v.require({"report"});
  v.object("report", m.report, [](auto& inner, auto& report) { report_fields(inner, report); });
  v.list("ranks", m.ranks, kMaxRanksPerNode, Keep::kFirst,
         [](auto& inner, auto& item) { rank_fields(inner, item); });
  v.embedded("facts", m.facts_json, kMaxFactsBytes);
  v.embedded_list("notes", m.notes_json, kMaxNotes, kMaxNoteBytes);
}

template <typename Visitor, typename Directive>
void directive_fields(Visitor& v, Directive& d) {
  v.require({"epoch", "seq", "to_incarnation", "wish", "world"});
  v.integer("epoch", d.epoch);
  v.integer("seq", d.seq);
  v.integer("to_incarnation", d.to_incarnation);
  v.choice("wish", d.wish, kWishNames);
  v.object("world", d.world, [](auto& inner, auto& world) { world_fields(inner, world); });
  v.text("reason", d.reason);
  v.choice("outcome", d.outcome, kOutcomeNames);
  v.integer("stop_signal", d.stop_signal, 1, kMaxSignal);
}

template <typename Visitor, typename Message>
void coordinator_message_fields(Visitor& v, Message& m) {
  v.require({"directive"});
  v.object("directive", m.directive, [](auto& inner, auto& d) { directive_fields(inner, d); });
}

}  // namespace shanty::wire
