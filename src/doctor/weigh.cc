#include "doctor/weigh.h"

#include <algorithm>
#include <tuple>

namespace shanty {
namespace {

// Exceptions and kills are told by their program; what a line of the library or the kernel says of
// the same moment is nearer to the cause.
bool explains(const Hypothesis& cause, const Hypothesis& other) {
  if (&cause == &other || cause.finding.confidence < kExplains) return false;
  if (cause.finding.severity != Severity::kError && other.finding.severity == Severity::kError) {
    return false;
  }
  if (cause.nearness < other.nearness) return true;
  return cause.nearness == other.nearness && other.nearness == Nearness::kCause &&
         cause.finding.confidence > other.finding.confidence && other.finding.code == "RUN102";
}

template <typename T>
bool names_all(const std::vector<T>& all, const std::vector<T>& some) {
  return std::all_of(some.begin(), some.end(), [&](const T& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  });
}

// The same, from weaker evidence, about nobody else: what a run's records show, its logs show too.
bool is_said_by(const Finding& weaker, const Finding& stronger) {
  if (weaker.code != stronger.code || weaker.confidence >= stronger.confidence) return false;
  const Subject& whom = stronger.subject;
  const bool about_all =
      whom.ranks.empty() && whom.nodes.empty() && whom.pods.empty() && whom.devices.empty();
  return about_all || (names_all(whom.ranks, weaker.subject.ranks) &&
                       names_all(whom.nodes, weaker.subject.nodes) &&
                       names_all(whom.pods, weaker.subject.pods) &&
                       names_all(whom.devices, weaker.subject.devices));
}

}  // namespace

std::vector<Finding> weigh(Hypotheses hypotheses) {
  std::vector<bool> explained(hypotheses.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (const Hypothesis& cause : hypotheses) {
      explained[i] = explained[i] || explains(cause, hypotheses[i]);
    }
  }
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    if (!explained[i]) continue;
    Finding& finding = hypotheses[i].finding;
    finding.confidence *= kConsequence;
    finding.severity = Severity::kNote;
  }
  // Cannot tell is no answer where there is one.
  const bool answered = std::any_of(hypotheses.begin(), hypotheses.end(), [](const Hypothesis& h) {
    return h.finding.code != "HANG199" && h.finding.severity != Severity::kNote;
  });
  std::erase_if(hypotheses, [&](const Hypothesis& h) {
    return (answered && h.finding.code == "HANG199") ||
           (h.nearness >= Nearness::kPeers && h.finding.severity == Severity::kNote);
  });
  std::stable_sort(
      hypotheses.begin(), hypotheses.end(), [](const Hypothesis& a, const Hypothesis& b) {
        return std::make_tuple(a.finding.severity == Severity::kNote, -a.finding.confidence,
                               a.unix_ns) < std::make_tuple(b.finding.severity == Severity::kNote,
                                                            -b.finding.confidence, b.unix_ns);
      });
  std::vector<Finding> out;
  for (Hypothesis& hypothesis : hypotheses) {
    const bool repeats = std::any_of(out.begin(), out.end(), [&](const Finding& stronger) {
      return is_said_by(hypothesis.finding, stronger);
    });
    if (!repeats) out.push_back(std::move(hypothesis.finding));
  }
  return out;
}

}  // namespace shanty
