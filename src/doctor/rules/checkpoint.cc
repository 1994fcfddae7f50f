#include <algorithm>

#include <fmt/format.h>

#include "doctor/behaviour.h"
#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr uint64_t kLinesOfTraceback = 16;  // between a frame and the error, of several frames

bool about_shm(const Case& of, const Record& record) {
  return record.text.find("/dev/shm") != std::string::npos ||
         record.text.find("/torch_") != std::string::npos ||
         record.text.find("posix_fallocate") != std::string::npos ||
         of.raised_under(record, "shm_frame");
}

Records disk_full(const Case& of) {
  Records out;
  for (const Record* record : of.all({"no_space", "read_only"})) {
    const bool image = record->text.find("pull image") != std::string::npos;
    // A loader worker that died of a bus error says the same without a path.
    const bool of_loader = record->get("path").empty() && !of.has("ckpt_unwritable") &&
                           (of.has("bus_error") || of.has("sigbus"));
    if (!about_shm(of, *record) && !image && !of_loader) out.push_back(record);
  }
  // What is said of shm in the same breath is shm's.
  if (of.has("shm_full") && !of.has("ckpt_unwritable")) return {};
  return out;
}

void unwritable(const Case& of, Hypotheses& out) {
  const Records full = disk_full(of);
  const Records writer = of.all("ckpt_unwritable");
  if (full.empty() && writer.empty()) return;
  Draft draft(of, "CKPT102", "checkpoint", full.empty() ? 0.8 : 0.92);
  draft.show(full).show(writer).show(of.all("ckpt_unreadable")).blame(full.empty() ? writer : full);
  for (const Record* record : full) draft.file(std::string(record->get("path")));
  for (const Record* record : writer) draft.file(std::string(record->get("path")));
  const std::string_view what = writer.empty() ? std::string_view{} : writer.front()->get("what");
  if (full.empty() && (what == "cannot be opened" || what == "does not exist")) {
    draft.message(fmt::format("{} cannot write a checkpoint: {} {}", of.place(*writer.front()),
                              writer.front()->get("path"), what));
    draft.rule_out("a damaged checkpoint: nothing was written");
    draft.fix("df -h and ls -ld of its directory: is it full, is it there, may this user write?");
    out.push_back(draft.done());
    return;
  }
  draft.message("the disk of " + of.place(full.empty() ? *writer.front() : *full.front()) +
                " is full: what was being written is cut off");
  draft.rule_out("/dev/shm: the path is another one");
  draft.fix("df -h there; remove old checkpoints; the file cut off cannot be loaded");
  draft.fix("shanty ckpt verify DIR names the newest checkpoint that is whole");
  draft.prevent("shanty.Checkpointer commits by rename and keeps the last good one");
  out.push_back(draft.done());
}

void unreadable(const Case& of, Hypotheses& out) {
  const Records lines = of.all("ckpt_unreadable");
  if (lines.empty() || of.has("ckpt_unwritable")) return;
  Draft draft(of, "CKPT101", "checkpoint", 0.93);
  draft.show(lines).blame(lines);
  for (const Record* record : of.all({"resumed"})) draft.show(record);
  if (const Record* path = of.first("ckpt_path")) draft.file(std::string(path->get("path")));
  draft.message("a checkpoint cannot be read: the file is cut off or damaged");
  draft.rule_out("a wrong architecture: the file itself is not whole");
  draft.fix("compare size and checksum with the other shards and the source; copy it again");
  draft.fix("load the one before; shanty ckpt verify DIR says which is whole");
  draft.prevent("shanty.Checkpointer verifies before it loads");
  out.push_back(draft.done());
}

// Does one prefix explain all keys?
std::string_view wrapper_prefix(const Records& lines) {
  for (const Record* record : lines) {
    for (const auto prefix : {"module.", "_orig_mod.", "_fsdp_wrapped_module.", "model."}) {
      if (record->get("keys").find(std::string("\"") + prefix) != std::string_view::npos) {
        return prefix;
      }
    }
  }
  return "";
}

void keys(const Case& of, Hypotheses& out) {
  const Records lines = of.all("ckpt_keys");
  const Records world = of.all("ckpt_world");
  if (!world.empty()) {
    Draft draft(of, "CKPT101", "checkpoint", 0.93);
    draft.show(world).blame(world);
    draft.message("the optimizer's state belongs to another world size or another model");
    draft.fix("load with the world size it was saved with, or convert it first");
    draft.prevent("shanty.Checkpointer loads at any world size");
    out.push_back(draft.done());
  }
  if (lines.empty()) return;
  bool sizes = false;
  for (const Record* record : lines) sizes |= record->get("kind").ends_with("ize mismatch");
  const std::string_view prefix = sizes ? std::string_view{} : wrapper_prefix(lines);
  Draft draft(of, "CKPT101", "checkpoint", 0.92);
  draft.show(lines).blame(lines);
  draft.message(!prefix.empty()
                    ? fmt::format("the checkpoint's keys differ from the model's by the prefix "
                                  "\"{}\": it was saved from a wrapper",
                                  prefix)
                : sizes ? "the checkpoint's tensors have other shapes: another model or vocabulary"
                        : "the checkpoint does not hold the model's keys");
  draft.rule_out("a damaged file: it could be read");
  draft.fix(!prefix.empty() ? "save model.module.state_dict(), or strip the prefix when loading"
                            : "the same model configuration as when it was saved");
  out.push_back(draft.done());
}

// The optimizer's first step after a load meets state of another shape.
void optimizer_shapes(const Case& of, Hypotheses& out) {
  if (of.has("ckpt_world") || of.has("ckpt_keys")) return;
  Records lines;
  for (const Record* clash : of.all("shape_clash")) {
    if (of.raised_under(*clash, "optim_frame")) lines.push_back(clash);
  }
  if (lines.empty()) return;
  Draft draft(of, "CKPT101", "checkpoint", 0.85);
  draft.show(lines).show(of.all("resumed")).blame(lines);
  draft.message(fmt::format(
      "the optimizer's state has other shapes ({} and {} elements) than the parameters: it was "
      "saved at another world size or for another model",
      lines.front()->get("a"), lines.front()->get("b")));
  draft.rule_out("a damaged file: it could be read");
  draft.fix("load with the world size it was saved with, or convert it first");
  draft.prevent("shanty.Checkpointer loads at any world size");
  out.push_back(draft.done());
}

void storage(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"stale_handle", "io_error"});
  if (lines.empty() || of.has("xid")) return;
  Draft draft(of, "CKPT102", "checkpoint", 0.7);
  draft.show(lines).blame(lines);
  for (const Record* record : lines) {
    draft.file(std::string(record->get("path"))).device(std::string(record->get("device")));
  }
  draft.message("storage of " + of.place(*lines.front()) + " fails: " + said(*lines.front()));
  draft.fix("dmesg of that node, state of the file server; mount again");
  out.push_back(draft.done());
}

// torch.utils.checkpoint and its like recompute activations.
bool of_activations(const Record& frame) {
  return frame.text.find("torch/utils/checkpoint") != std::string::npos ||
         frame.text.find("activation") != std::string::npos;
}

bool names_checkpoint(std::string_view text) {
  for (const std::string_view word :
       {"ckpt", "heckpoint", "global_step", "model_states", ".safetensors", ".pt'", ".pth'"}) {
    if (text.find(word) != text.npos) return true;
  }
  return false;
}

// An exception of any kind out of the code that saves or loads.
void raised(const Case& of, Hypotheses& out) {
  Records frames = of.all("ckpt_frame");
  std::erase_if(frames, [](const Record* frame) { return of_activations(*frame); });
  const Record* error = nullptr;
  for (const Record* record : of.all("exception")) {
    if (!is_own_exception(*record)) continue;
    const bool about_path =
        record->get("what").starts_with("[Errno ") && names_checkpoint(record->get("what"));
    const bool under = std::any_of(frames.begin(), frames.end(), [record](const Record* frame) {
      return frame->file == record->file && frame->line < record->line &&
             record->line - frame->line <= kLinesOfTraceback;
    });
    if (about_path || under || record->get("type") == "CheckpointException") error = record;
    break;  // the first own one counts
  }
  if (!error) return;
  Draft draft(of, "CKPT101", "checkpoint", 0.62);
  draft.show(error).show(frames).blame(error);
  draft.message(of.place(*error) + " failed in a checkpoint's code: " + said(*error, 140));
  draft.rule_out("the other ranks: they wait for it in their next collective");
  draft.fix("is the path there, for every rank the same, and may this user write it?");
  draft.fix("does the checkpoint belong to this version of the model and its framework?");
  out.push_back(draft.done());
}

}  // namespace

void checkpoint_rule(const Case& of, Hypotheses& out) {
  unwritable(of, out);
  unreadable(of, out);
  keys(of, out);
  optimizer_shapes(of, out);
  storage(of, out);
  raised(of, out);
}

}  // namespace shanty
