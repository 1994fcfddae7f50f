#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

// Everything that is put into the dictionary that a call saves, as text; empty when it is not to
// be seen whole.
std::string content_of(const Context& context, const Call& save) {
  const SyntaxTree& tree = context.tree;
  NodeId object = context.script.argument(save, "obj", 0);
  if (tree.is(object, "dictionary")) return std::string(tree.text(object));
  const Call* made = context.script.call_at(object);
  if (made != nullptr && made->name == "dict") return std::string(tree.text(object));
  if (!tree.is(object, "identifier")) return {};
  std::string out;
  bool is_known = true;  // what the name holds at the save
  const std::string prefix = std::string(tree.text(object)) + "[";
  for (const Assignment& one : context.script.assignments()) {
    if (one.function != save.function) continue;
    if (one.target == tree.text(object)) {
      const Call* call = context.script.call_at(one.value);
      const bool known =
          tree.is(one.value, "dictionary") || (call != nullptr && call->name == "dict");
      if (!known && one.node < save.node) out.clear();
      is_known = one.node > save.node ? is_known : known;
      if (known) out += tree.text(one.value);
    }
    if (one.target.starts_with(prefix)) (out += one.target) += tree.text(one.value);
  }
  return is_known && out.find("**") == std::string::npos ? out : std::string();
}

// True when `x.step()` is called. One that is told the epoch each time has no state to lose.
bool steps(const Context& context, std::initializer_list<std::string_view> names) {
  for (const Call* call : context.script.calls_to("step")) {
    const NodeId told = context.script.argument(*call, "epoch", 0);
    if (mentions_any(context.tree.text(told), {"epoch", "iter", "step"})) continue;
    const std::string_view owner = std::string_view(call->name).substr(0, call->name.rfind('.'));
    if (mentions_any(owner, names)) return true;
  }
  return false;
}

bool loads(const Context& context, std::initializer_list<std::string_view> names) {
  for (const Call* call : context.script.calls_to("load_state_dict")) {
    if (mentions_any(call->name, names)) return true;
  }
  return false;
}

// "optimizer.state_dict()", in whatever dictionary or object the optimizer stands.
bool holds_state_of(std::string_view content, std::initializer_list<std::string_view> what) {
  for (size_t at = content.find(".state_dict("); at != std::string_view::npos;
       at = content.find(".state_dict(", at + 1)) {
    const size_t start = content.find_last_of(" \t\n{,(=", at);
    if (mentions_any(content.substr(start + 1, at - start - 1), what)) return true;
  }
  return false;
}

// f"{epoch}.pt", "%d.pt" % step: the name keeps the count.
bool is_counted_by_name(const Context& context, const Call& save) {
  const NodeId path = context.script.argument(save, "f", 1);
  std::string text(context.tree.text(path));
  for (const Assignment* one : context.script.assignments_to(text, save.function)) {
    (text += ' ') += context.tree.text(one->value);
  }
  if (text.find_first_of("{%") == std::string::npos) return false;
  if (mentions_any(text, {"epoch", "step", "iter"})) return true;
  for (const Assignment& one : context.script.assignments()) {
    if (context.tree.is(one.node, "for_statement") && context.tree.contains(one.node, save.node) &&
        text.find("{" + std::string(one.target)) != std::string::npos) {
      return true;
    }
  }
  return text.find("zfill") != std::string::npos;
}

// A scaler that is switched off for good has nothing to save.
bool scales(const Context& context) {
  const std::vector<const Call*> made = context.script.calls_to("GradScaler");
  return std::any_of(made.begin(), made.end(), [&](const Call* call) {
    return !context.tree.is(context.script.argument(*call, "enabled"), "false");
  });
}

// The last save, after the loop: nobody goes on from it.
bool is_after_training(const Context& context, const Call& save) {
  const NodeId loop = context.training_loop();
  return loop != kNoNode && save.node > loop && context.script.function_of(loop) == save.function &&
         context.script.loop_around(save.node) == kNoNode;
}

std::string missing_from(const Context& context, const Call& save, const std::string& content) {
  std::string out;
  const auto miss = [&out](std::string_view what) {
    out += out.empty() ? "" : " and ";
    out += what;
  };
  if (!holds_state_of(content, {"opt"})) miss("the optimizer");
  if (steps(context, {"sched"}) && !mentions_any(content, {"sched"}) &&
      !context.mentions("last_epoch")) {
    miss("the scheduler");
  }
  if (scales(context) && steps(context, {"scaler"}) && !mentions_any(content, {"scal", "amp"})) {
    miss("the gradient scaler");
  }
  // A trainer, a counter or a progress object may keep the count.
  if (!mentions_any(content, {"epoch", "step", "iter", "global", "progress", "report", "train"}) &&
      !is_counted_by_name(context, save)) {
    miss("the epoch or step");
  }
  return out;
}

bool holds_model(const std::string& content) {
  return content.find("state_dict()") != std::string::npos;
}

// Seeded, so that somebody wants the same numbers again, and resumed without the generators.
void check_generators(Context& context, const Call& save) {
  if (!context.facts.resumes || mentions_any(context.tree.source(), {"rng", "random_state"}))
    return;
  for (const std::string_view name : {"manual_seed", "manual_seed_all", "seed_everything",
                                      "set_seed", "seed_all", "set_random_seed"}) {
    if (context.script.calls_to(name).empty()) continue;
    context.add("CKPT027", Severity::kNote, save.node,
                "the run is seeded, but the state of its random generators is not saved: after a "
                "restart dropout and augmentations begin their sequence again");
    return;
  }
}

// A resumed run takes the weights and the epoch out of its checkpoint, and leaves the optimizer.
void check_read_back(Context& context) {
  if (loads(context, {"opt"}) || !context.mentions("start_epoch")) return;
  for (const Call* load : context.script.calls_to("torch.load")) {
    const std::string_view name = context.given_name(*load);
    const bool has_count = context.mentions(fmt::format("{}['epoch']", name)) ||
                           context.mentions(fmt::format("{}[\"epoch\"]", name));
    if (name.empty() || !has_count || !loads(context, {"model", "net"})) continue;
    context.add("CKPT024", Severity::kWarning, load->node,
                "the epoch and the weights are taken from this checkpoint, but the optimizer's "
                "state, which is in it too, is not: its first steps go wrong");
    return;
  }
}

// A dictionary with more than weights, or one that the script reads back to go on, is to resume.
void check_dictionaries(Context& context) {
  const Call* complete = nullptr;
  const Call* lacking = nullptr;
  std::string missing;
  for (const Call* save : context.script.calls_to("torch.save")) {
    const std::string content = content_of(context, *save);
    if (!holds_model(content) || is_after_training(context, *save)) continue;
    const bool to_resume = holds_state_of(content, {"opt"}) ||
                           (mentions_any(content, {"epoch", "step"}) && context.facts.resumes) ||
                           (mentions_any(content, {"epoch"}) && loads(context, {"model"}) &&
                            mentions_any(context.tree.source(), {"resum"}));
    if (!to_resume) continue;
    std::string lacks = missing_from(context, *save, content);
    if (lacks.empty() && complete == nullptr) complete = save;
    if (!lacks.empty() && lacking == nullptr) {
      lacking = save;
      missing = std::move(lacks);
    }
  }
  if (complete != nullptr) {
    check_generators(context, *complete);
    check_read_back(context);
  }
  if (lacking == nullptr || complete != nullptr) return;
  // A scale that begins again costs the first steps only.
  const bool is_small = missing == "the gradient scaler";
  context.add("CKPT024", is_small ? Severity::kNote : Severity::kWarning, lacking->node,
              fmt::format("a run that resumes from this checkpoint lacks {}", missing));
}

// In the loop over epochs, or in one that steps too.
bool is_in_training(const Context& context, const Call& save) {
  const NodeId epochs = context.epoch_loop();
  if (epochs != kNoNode && context.tree.contains(epochs, save.node)) return true;
  const std::vector<const Call*> steps = context.script.calls_to("backward");
  for (NodeId loop = context.script.loop_around(save.node); loop != kNoNode;
       loop = context.script.loop_around(loop)) {
    if (std::any_of(steps.begin(), steps.end(),
                    [&](const Call* step) { return context.tree.contains(loop, step->node); })) {
      return true;
    }
  }
  return false;
}

// model.state_dict(), or a name for it.
bool is_state(const Context& context, NodeId object, FunctionId function) {
  const auto is_call = [&](NodeId node) {
    const Call* call = context.script.call_at(node);
    return call != nullptr && call->last() == "state_dict";
  };
  if (is_call(object)) return true;
  if (!context.tree.is(object, "identifier")) return false;
  const auto given = context.script.assignments_to(context.tree.text(object), function);
  return !given.empty() && std::all_of(given.begin(), given.end(),
                                       [&](const Assignment* one) { return is_call(one->value); });
}

// The file that is written in training is the one that is looked for before it.
bool reads_again(const Context& context, const Call& save) {
  const NodeId path = context.script.argument(save, "f", 1);
  if (!context.tree.is(path, "identifier") && !context.tree.is(path, "attribute") &&
      !context.tree.is(path, "string")) {
    return false;
  }
  const std::vector<const Call*> loads = context.script.calls_to("torch.load");
  return std::any_of(loads.begin(), loads.end(), [&](const Call* load) {
    return load->function == save.function && load->node < save.node &&
           context.tree.text(context.script.argument(*load, "f", 0)) == context.tree.text(path);
  });
}

// Weights alone, saved in the training loop: there is nothing to go on from.
void check_weights_only(Context& context) {
  for (const Call* save : context.script.calls_to("torch.save")) {
    if (mentions_any(context.tree.text(context.script.argument(*save, "obj", 0)), {"opt"})) return;
    const std::string content = content_of(context, *save);
    if (!content.empty() && (!holds_model(content) || mentions_any(content, {"opt"}))) return;
  }
  if (!context.facts.distributed) return;
  for (const Call* save : context.script.calls_to("torch.save")) {
    const NodeId object = context.script.argument(*save, "obj", 0);
    if (!(is_state(context, object, save->function) || holds_model(content_of(context, *save))) ||
        !is_in_training(context, *save)) {
      continue;
    }
    const bool is_read = reads_again(context, *save);
    if (!is_read && !context.script.calls_to("torch.load").empty()) continue;
    context.add("CKPT024", is_read ? Severity::kWarning : Severity::kNote, save->node,
                is_read ? "only the weights are saved, and the next run goes on from them: with a "
                          "new optimizer, at the first epoch"
                        : "only the weights are saved: a run that is killed begins again at its "
                          "first epoch");
    return;
  }
}

}  // namespace

void check_checkpoint_content(Context& context) {
  if (context.facts.trainer() || context.script.calls_to("backward").empty()) return;
  // The engine's own checkpoint has it all.
  if (context.script.calls_any({"save_state", "save_checkpoint"}) && context.facts.own_loop) return;
  check_dictionaries(context);
  check_weights_only(context);
}

}  // namespace shanty::lint
