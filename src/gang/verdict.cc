#include "gang/verdict.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "gang/text.h"

namespace shanty::gang {
namespace {

constexpr size_t kMaxFirstErrorBytes = 512;  // a history of 64 travels in every world
constexpr size_t kMaxSignatureErrorBytes = 200;

// What a rank says when another one went away under it.
constexpr std::array<std::string_view, 5> kPeerDeathWords = {"Connection reset by peer",
                                                             "Connection closed by peer", "NCCL",
                                                             "Timed out waiting", "Broken pipe"};

enum class Kind { kKilled, kOwnEnd, kAbort, kPeerDeath };  // likeliest cause first

bool speaks_of_peer_death(const std::string& error) {
  return std::any_of(kPeerDeathWords.begin(), kPeerDeathWords.end(), [&](std::string_view words) {
    return error.find(words) != std::string::npos;
  });
}

Kind kind_of(const Candidate& c) {
  if (!c.exit) return c.node_left ? Kind::kOwnEnd : Kind::kKilled;
  if (c.exit->out_of_memory) return Kind::kKilled;
  switch (c.exit->signal) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
      return Kind::kKilled;
    default:
      break;
  }
  if (speaks_of_peer_death(c.exit->error)) return Kind::kPeerDeath;
  return c.exit->signal == SIGABRT ? Kind::kAbort : Kind::kOwnEnd;
}

bool counts(const Candidate& c) { return !c.exit || (c.exit->failed() && !c.exit->requested); }

// Signals that come from outside the program say nothing about it.
bool is_strangers_signal(const WorkerExit& exit) {
  if (exit.out_of_memory) return false;
  return exit.signal == SIGKILL || exit.signal == SIGTERM || exit.signal == SIGINT ||
         exit.signal == SIGHUP;
}

std::string signature_of(const WorkerExit& exit) {
  if (is_strangers_signal(exit)) return "";
  if (exit.step == kNoStep && exit.error.empty()) return "";
  return describe_end(exit) + "|" + first_line(exit.error, kMaxSignatureErrorBytes) + "|" +
         std::to_string(exit.rank) + "|" + (exit.step == kNoStep ? "" : std::to_string(exit.step));
}

Failure failure_of(const Candidate& c, Generation generation) {
  Failure f{.unix_ns = c.unix_ns,
            .generation = generation,
            .node_rank = c.node_rank,
            .node = c.node,
            .reason = c.node_reason};
  if (!c.exit) return f;
  f.rank = c.exit->rank;
  f.reason = describe_end(*c.exit);
  f.first_error = clip(c.exit->error, kMaxFirstErrorBytes);
  f.step = c.exit->step;
  f.signature = signature_of(*c.exit);
  return f;
}

// Whether a worker ended by itself: an exit code, no signal. A failure recorded by an earlier life
// has nothing else to tell it by than its words.
bool is_own_exit(const Failure& f) { return f.rank >= 0 && f.reason.starts_with(kExitedWords); }

int rank_of(const Candidate& c) { return c.exit ? c.exit->rank : -1; }

bool is_likelier(const Candidate& a, const Candidate& b) {
  if (kind_of(a) != kind_of(b)) return kind_of(a) < kind_of(b);
  if (a.unix_ns != b.unix_ns) return a.unix_ns < b.unix_ns;
  return rank_of(a) < rank_of(b);
}

// Who speaks of a peer's death felt it, and counts only where nobody else is known to have ended,
// however late: a process with much memory, or a GPU, takes seconds to die of a SIGKILL.
std::vector<const Candidate*> possible_causes(std::span<const Candidate> candidates) {
  std::vector<const Candidate*> causes;
  for (const Candidate& c : candidates) {
    if (counts(c)) causes.push_back(&c);
  }
  const auto is_effect = [](const Candidate* c) { return kind_of(*c) == Kind::kPeerDeath; };
  if (!std::all_of(causes.begin(), causes.end(), is_effect)) std::erase_if(causes, is_effect);
  return causes;
}

std::string repeated_text(const Failure& f) {
  std::string text = "rank " + std::to_string(f.rank) + " failed twice";
  text += f.step == kNoStep ? " before its first step" : " at step " + std::to_string(f.step);
  const std::string error = first_line(f.first_error, kMaxSignatureErrorBytes);
  return text + (error.empty() ? ": " + f.reason : " with " + error + " (" + f.reason + ")") +
         "; the program itself is at fault, so it is not restarted";
}

int restarts_in_window(const RestartRules& rules, std::span<const Failure> before,
                       int restarts_before, int64_t now_unix_ns) {
  if (rules.restart_window == Duration::zero()) return restarts_before;
  const int64_t since = now_unix_ns - rules.restart_window.count();
  return static_cast<int>(std::count_if(before.begin(), before.end(),
                                        [&](const Failure& f) { return f.unix_ns > since; }));
}

std::string budget_text(const RestartRules& rules, const std::string& what) {
  if (rules.max_restarts == 0) return what + "; no restart is allowed";
  const std::string within = rules.restart_window == Duration::zero()
                                 ? ""
                                 : " within " + describe_duration(rules.restart_window);
  return what + "; the restart budget of " + std::to_string(rules.max_restarts) + within +
         " is used up";
}

}  // namespace

std::optional<Failure> choose_root_cause(std::span<const Candidate> candidates,
                                         Generation generation) {
  const std::vector<const Candidate*> causes = possible_causes(candidates);
  if (causes.empty()) return std::nullopt;
  const Candidate* earliest = *std::min_element(
      causes.begin(), causes.end(),
      [](const Candidate* a, const Candidate* b) { return a->unix_ns < b->unix_ns; });
  const Candidate* best = earliest;
  for (const Candidate* c : causes) {
    if (c->unix_ns <= earliest->unix_ns + kSameEventNs && is_likelier(*c, *best)) best = c;
  }
  return failure_of(*best, generation);
}

Decision decide_restart(const RestartRules& rules, std::span<const Failure> before,
                        int restarts_before, const Failure& failure, int64_t now_unix_ns) {
  const std::string what = describe_failure(failure);
  const bool repeated = !failure.signature.empty() &&
                        std::any_of(before.begin(), before.end(), [&](const Failure& f) {
                          return f.signature == failure.signature;
                        });
  if (repeated) return {false, repeated_text(failure)};
  if (is_own_exit(failure) && !rules.restart_on_exit) return {false, what};
  if (restarts_in_window(rules, before, restarts_before, now_unix_ns) >= rules.max_restarts) {
    return {false, budget_text(rules, what)};
  }
  return {true, what};
}

}  // namespace shanty::gang
