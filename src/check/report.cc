#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "causes/report.h"
#include "check/change_text.h"
#include "check/check.h"
#include "check/objects.h"
#include "check/probe.h"
#include "text/json_fields.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty::check {
namespace {

using nlohmann::json;

std::string verdict(const CheckReport& report) {
  const Fit& fit = report.fit;
  if (report.workload.request.groups.empty()) {
    return "no pod of " + printable(report.workload.name) + " waits for a node" +
           (report.findings.empty() ? ", and nothing else was found" : "");
  }
  const std::string what =
      fmt::format("{} {} ({} x {})", report.workload.kind, printable(report.workload.name),
                  counted(report.workload.pods(), "pod"), pod_text(report.workload));
  if (report.fits()) {
    return "fits now: " + what + (fit.place.empty() ? "" : ", all in " + fit.place);
  }
  if (fit.fits) return "does not start now, though nodes have room: " + what;
  return fmt::format("does not fit now: {}: {} of {} find a place", what, fit.placed,
                     counted(fit.wanted, "pod"));
}

const char* kind_name(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kTolerate:
      return "tolerate";
    case ChangeKind::kSmallerPods:
      return "smaller_pods";
    case ChangeKind::kOtherNodes:
      return "other_nodes";
    case ChangeKind::kNoTopology:
      return "no_topology";
    case ChangeKind::kNoSpread:
      return "no_spread";
    case ChangeKind::kFewerPods:
      return "fewer_pods";
    case ChangeKind::kUncordon:
      return "uncordon";
    case ChangeKind::kFreeHolders:
      return "free_holders";
    case ChangeKind::kOtherQueue:
      return "other_queue";
  }
  __builtin_unreachable();
}

json amounts_json(const Amounts& amounts) {
  json out = json::object();
  for (const auto& [name, amount] : amounts) out[name] = amount_text(name, amount);
  return out;
}

json holder_json(const Holder& holder) {
  json out = {{"namespace", holder.k8s_namespace},
              {"owner", holder.owner},
              {"pods", holder.pods},
              {"priority", holder.priority},
              {"nodes", holder.nodes},
              {"holds", amounts_json(holder.holds)}};
  out["ends_unix_s"] = holder.ends_unix_s ? json(*holder.ends_unix_s) : json(nullptr);
  return out;
}

json change_json(const Change& change, const CheckReport& report) {
  json out = {{"kind", kind_name(change.kind)},
              {"text", change_text(change, report.workload, report.now_unix_s)}};
  for (const Taint& taint : change.taints) {
    out["taints"].push_back({{"key", taint.key}, {"value", taint.value}, {"effect", taint.effect}});
  }
  if (!change.resource.empty()) {
    out["resource"] = change.resource;
    out["amount"] = amount_text(change.resource, change.amount);
  }
  if (!change.label.empty()) out["label"] = change.label;
  if (change.kind == ChangeKind::kFewerPods) out["pods"] = change.pods;
  if (!change.nodes.empty()) out["nodes"] = change.nodes;
  for (const Holder& holder : change.holders) out["holders"].push_back(holder_json(holder));
  return out;
}

json finding_json(const Finding& finding) {
  json out = {{"code", finding.code},         {"severity", severity_name(finding.severity)},
              {"message", finding.message},   {"why", finding.why},
              {"fix", finding.fix},           {"confidence", finding.confidence},
              {"evidence", json::array()},    {"nodes", finding.subject.nodes},
              {"pods", finding.subject.pods}, {"ruled_out", finding.ruled_out}};
  for (const Evidence& evidence : finding.evidence) out["evidence"].push_back(evidence.text);
  return out;
}

}  // namespace

std::string report_text(const CheckReport& report, bool color, size_t width) {
  std::string out = styled(verdict(report), sgr::kBold, color) + "\n";
  const Fit& fit = report.fit;
  if (!fit.changes.empty()) {
    out +=
        "smallest change: " + change_text(fit.changes.front(), report.workload, report.now_unix_s) +
        "\n";
  } else if (!fit.fits) {
    out += "no single change makes it fit\n";
  }
  if (!fit.fits) out += "when: " + when_text(fit, report.now_unix_s) + "\n";
  if (!fit.nodes.empty()) out += node_counts_text(fit) + "\n";
  if (!report.findings.empty()) {
    out += "\n" + findings_text(report.findings, [](const std::string&) { return ""; },
                                {.color = color, .width = width});
  }
  if (!report.unread.empty()) out += "\nnot seen:\n";
  for (const std::string& what : report.unread) out += "  " + printable(what) + "\n";
  return out;
}

std::string report_json(const CheckReport& report) {
  const Fit& fit = report.fit;
  json out = {{"format", 1},
              {"fits", report.fits()},
              {"room", fit.fits},
              {"context", report.context},
              {"namespace", report.workload.k8s_namespace},
              {"name", report.workload.name},
              {"kind", report.workload.kind},
              {"pods", {{"wanted", fit.wanted}, {"placed", fit.placed}}},
              {"place", fit.place},
              {"change", nullptr},
              {"alternatives", json::array()},
              {"when", when_text(fit, report.now_unix_s)},
              {"fits_unix_s", nullptr},
              {"findings", json::array()},
              {"holders", json::array()},
              {"would_preempt", json::array()},
              {"unread", report.unread}};
  if (fit.fits_unix_s) out["fits_unix_s"] = *fit.fits_unix_s;
  for (size_t i = 0; i < fit.changes.size(); ++i) {
    json change = change_json(fit.changes[i], report);
    if (i == 0) {
      out["change"] = std::move(change);
    } else {
      out["alternatives"].push_back(std::move(change));
    }
  }
  for (const Finding& finding : report.findings) out["findings"].push_back(finding_json(finding));
  for (const Holder& holder : fit.holders) out["holders"].push_back(holder_json(holder));
  for (const Holder& holder : fit.preempted) out["would_preempt"].push_back(holder_json(holder));
  for (const FitGroup& group : report.workload.request.groups) {
    out["groups"].push_back(
        {{"name", group.name}, {"pods", group.pods}, {"per_pod", amounts_json(group.per_pod)}});
  }
  return print_json_pretty(out);
}

}  // namespace shanty::check
