#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

// Events of one pod do not repeat its name: the one that put it on its node has it.
void blame_assigned(const Case& of, const Records& lines, Draft& draft) {
  if (draft.blames_someone() || lines.empty()) return;
  const Record* nearest = nullptr;
  for (const Record* record : of.all("pod_assigned")) {
    if (record->file == lines.front()->file && record->line <= lines.front()->line)
      nearest = record;
  }
  draft.show(nearest).blame(nearest);
}

void image(const Case& of, Hypotheses& out) {
  const Records lines = of.all("image_pull");
  Draft draft(of, "POD101", "k8s_pod_start", 0.93);
  bool waiting = false;
  for (const PodFact& pod : of.facts().pods) {
    if (pod.waiting_reason != "ImagePullBackOff" && pod.waiting_reason != "ErrImagePull") continue;
    waiting = true;
    draft.pod(pod.name).node(pod.node).show(pod.where);
  }
  if (lines.empty() && !waiting) return;
  draft.show(lines).blame(lines);
  blame_assigned(of, lines, draft);
  std::string name;
  bool limited = false;
  bool full = false;
  for (const Record* record : lines) {
    if (name.empty()) name = record->get("image");
    limited |= record->text.find("toomanyrequests") != std::string::npos;
    full |= record->text.find("no space left") != std::string::npos;
  }
  if (!name.empty()) draft.file(name);
  draft.message(fmt::format("the image {}cannot be pulled{}", name.empty() ? "" : name + " ",
                            limited ? ": the registry's rate limit is reached"
                            : full  ? ": the node's disk is full"
                                    : ""));
  draft.rule_out("the training program: it has not started");
  draft.fix(limited
                ? "pull through a mirror, or with a login (imagePullSecrets)"
                : "does the tag exist, is the pull secret in this namespace, has the node room?");
  out.push_back(draft.done());
}

void volumes(const Case& of, Hypotheses& out) {
  const Records lines =
      of.all({"mount_failed", "config_missing", "sandbox_failed", "container_failed"});
  if (lines.empty() || of.has("container_gpu")) return;
  Draft draft(of, "POD101", "k8s_pod_start", 0.88);
  draft.show(lines).blame(lines);
  blame_assigned(of, lines, draft);
  draft.file(std::string(lines.front()->get("volume")));
  draft.message("a pod cannot start: " + said(*lines.front(), 160));
  draft.fix(
      "a claim that several nodes use needs ReadWriteMany; is the claim bound, the secret "
      "there?");
  out.push_back(draft.done());
}

void evicted(const Case& of, Hypotheses& out) {
  Records lines = of.all("evicted");
  Draft draft(of, "POD101", "k8s_pod_start", 0.9);
  bool told = !lines.empty();
  for (const PodFact& pod : of.facts().pods) {
    if (pod.reason != "Evicted") continue;
    told = true;
    draft.pod(pod.name).node(pod.node).show(
        {pod.where.file, pod.where.line, "Evicted: " + pod.message});
  }
  if (!told) return;
  draft.show(lines).blame(lines);
  const std::string resource = lines.empty() ? "" : std::string(lines.front()->get("resource"));
  draft.message(fmt::format("a pod was evicted: its node ran low on {}",
                            resource.empty() ? "a resource" : resource));
  draft.rule_out("a crash: the log ends without an error, the kubelet ended it");
  draft.fix("caches and checkpoints onto a volume, not the node's disk; request ephemeral-storage");
  out.push_back(draft.done());
}

}  // namespace

void k8s_pod_start_rule(const Case& of, Hypotheses& out) {
  image(of, out);
  volumes(of, out);
  evicted(of, out);
}

}  // namespace shanty
