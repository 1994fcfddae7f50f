#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

const std::initializer_list<std::string_view> kWaits = {
    "barrier",    "wait_for_everyone", "broadcast",  "broadcast_object_list",
    "all_reduce", "synchronize",       "all_gather", "monitored_barrier",
    "join"};

NodeId path_of(const Context& context, const Call& save) {
  return context.script.argument(save, "f", 1);
}

// The text of an expression and, where it is a name, of what the name is given.
std::string with_sources(const Context& context, NodeId node, FunctionId function) {
  std::string out(context.tree.text(node));
  for (const Assignment* one : context.script.assignments_to(context.tree.text(node), function)) {
    (out += ' ') += context.tree.text(one->value);
  }
  return out;
}

bool differs_by_rank(const Context& context, const Call& save) {
  const std::string text = with_sources(context, path_of(context, save), save.function);
  return mentions_any(text, {"rank", "shard", "local", "worker", "BytesIO", "buf", "process",
                             "node", "gpu", "host", "tmp", "temp", "device"});
}

// "if args.should_save": some other file may have set it on one rank only. "if dp_rank == 0": a
// rank of a group, one of several writers.
bool may_be_guarded(const Context& context, const Call& save) {
  const SyntaxTree& tree = context.tree;
  for (NodeId at = tree.parent(save.node); at != kNoNode; at = tree.parent(at)) {
    if (tree.is(at, "function_definition")) return false;
    if (tree.is(at, "if_statement") &&
        mentions_any(tree.text(tree.child(at, "condition")),
                     {"should_save", "save_logs", "do_save", "should_log", "should_write", "_rank",
                      "get_rank("})) {
      return true;
    }
  }
  return false;
}

void check_all_ranks(Context& context) {
  for (const Call* save : context.script.calls_to("torch.save")) {
    if (may_be_guarded(context, *save)) continue;
    const Guard guard = context.guards.of(save->node);
    if (guard.some() || guard.ordered || guard.callers_unknown || differs_by_rank(context, *save)) {
      continue;
    }
    context.add("CKPT020", Severity::kWarning, save->node,
                fmt::format("every rank writes {} at the same time",
                            context.quoted(path_of(context, *save))));
  }
}

// How many processes come to the end of this script: surely several, perhaps, or one.
enum class Processes { kOne, kPerhapsSeveral, kSeveral };

// As the trainer of Lightning is told. Without `devices` it takes all that it sees.
Processes processes_of_lightning(const Context& context) {
  Processes out = Processes::kOne;
  for (const Call* made : context.script.calls_to("Trainer")) {
    if (!made->name.starts_with("pytorch_lightning.") && !made->name.starts_with("lightning.")) {
      continue;
    }
    const std::string_view strategy = context.tree.text(context.script.argument(*made, "strategy"));
    const std::string_view devices = context.tree.text(context.script.argument(*made, "devices"));
    if (mentions_any(strategy, {"ddp", "fsdp", "deepspeed"})) return Processes::kSeveral;
    if (mentions_any(devices, {"auto"}) || devices == "-1") out = Processes::kPerhapsSeveral;
    const bool is_count =
        !devices.empty() && devices.find_first_not_of("0123456789") == devices.npos;
    if (is_count && devices != "1" && devices != "0") return Processes::kSeveral;
  }
  return out;
}

Processes processes_at_save(const Context& context) {
  if (context.script.imports("pytorch_lightning") || context.script.imports("lightning")) {
    return processes_of_lightning(context);
  }
  if (context.script.imports("accelerate") && context.facts.own_loop) {
    const bool unwraps = !context.script.calls_to("unwrap_model").empty();
    return unwraps ? Processes::kSeveral : Processes::kOne;
  }
  return context.facts.distributed ? Processes::kSeveral : Processes::kOne;
}

bool saves_model(const Context& context, const Call& save) {
  const NodeId callee = context.tree.child(save.node, "function");
  const std::string_view owner = context.tree.text(context.tree.child(callee, "object"));
  return mentions_any(owner, {"model", "module", "net", "policy", "actor", "peft"}) &&
         !mentions_any(owner, {"tokenizer", "config"});
}

// save_pretrained() writes wherever it is called, unless it is told which process is the main one.
// After fit() and train() of a trainer all its processes go on.
void check_pretrained(Context& context) {
  const Processes processes = processes_at_save(context);
  if (processes == Processes::kOne) return;
  for (const Call* save : context.script.calls_to("save_pretrained")) {
    if (context.script.argument(*save, "is_main_process") != kNoNode ||
        context.script.has_splat(*save) || may_be_guarded(context, *save) ||
        !saves_model(context, *save)) {
      continue;
    }
    const Guard guard = context.guards.of(save->node);
    const bool is_open = context.facts.trainer() || !context.facts.managed;
    if (guard.some() || guard.ordered || (is_open && guard.callers_unknown)) continue;
    const bool has_accelerator = context.facts.own_loop && context.script.imports("accelerate");
    context.add("CKPT020", processes == Processes::kSeveral ? Severity::kWarning : Severity::kNote,
                save->node,
                fmt::format("every process writes {} at the same time{}",
                            context.quoted(context.script.argument(*save, "save_directory", 0)),
                            has_accelerator ? ": is_main_process=accelerator.is_main_process lets "
                                              "one do it"
                                            : ""));
    return;
  }
}

bool waits_between(const Context& context, FunctionId function, NodeId from, NodeId to) {
  return std::any_of(kWaits.begin(), kWaits.end(), [&](std::string_view name) {
    const std::vector<const Call*> calls = context.script.calls_to(name);
    return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
      return call->function == function && call->node > from && call->node < to;
    });
  });
}

// One rank saves, all load the same path further down, and nothing makes them wait.
void check_read_after(Context& context) {
  for (const Call* save : context.script.calls_to("torch.save")) {
    const Guard guard = context.guards.within_function(save->node);
    if (!guard.one) continue;
    const std::string_view path = context.tree.text(path_of(context, *save));
    for (const Call* load : context.script.calls_to("torch.load")) {
      if (load->function != save->function || load->node < save->node) continue;
      if (context.tree.text(context.script.argument(*load, "f", 0)) != path) continue;
      if (context.guards.within_function(load->node).one) continue;
      if (waits_between(context, save->function, save->node, load->node)) continue;
      context.add(
          "CKPT021", Severity::kWarning, load->node,
          fmt::format("the other ranks load {} while one rank may still write it (line {}): "
                      "there is no barrier between",
                      path, context.line(save->node)));
    }
  }
}

// A path that went through an object keeps its name: self.path, path.
std::string_view last_part(std::string_view name) {
  const bool plain = name.find_first_of("\"'(/") == name.npos;
  return plain ? name.substr(name.rfind('.') + 1) : name;
}

// In a loop, or in a function that a loop calls.
bool is_repeated(const Context& context, const Call& save) {
  if (context.script.loop_around(save.node) != kNoNode) return true;
  if (save.function == kModule) return false;
  const std::vector<Script::Use> uses = context.script.uses_of(save.function);
  return std::any_of(uses.begin(), uses.end(), [&](const Script::Use& use) {
    return context.script.loop_around(use.node) != kNoNode;
  });
}

// Written in, or a name that no caller fills anew.
bool is_fixed(const Context& context, NodeId path, FunctionId function) {
  const SyntaxTree& tree = context.tree;
  if (tree.is(path, "string") || tree.is(path, "attribute")) return true;
  if (!tree.is(path, "identifier")) return false;
  if (function == kModule) return true;
  const auto& parameters = context.script.functions()[static_cast<size_t>(function)].parameters;
  return std::count(parameters.begin(), parameters.end(), tree.text(path)) == 0;
}

// Overwritten again and again under one name, and read at the next start: a kill while it is
// written leaves nothing.
void check_in_place(Context& context) {
  if (context.mentions("os.replace") || context.mentions("os.rename") ||
      context.mentions("shutil.move") || context.mentions(".rename(") ||
      context.mentions(".replace(tmp") || context.mentions("shutil.copy")) {
    return;
  }
  for (const Call* save : context.script.calls_to("torch.save")) {
    const NodeId path = path_of(context, *save);
    if (!is_fixed(context, path, save->function)) continue;
    const bool again = is_repeated(context, *save);
    if (!again) continue;
    const std::string text = with_sources(context, path, save->function);
    if (mentions_any(text, {"epoch", "step", "iter", "{", "%", "format", "best", "final", "temp",
                            "BytesIO"}))
      continue;
    const std::vector<const Call*> loads = context.script.calls_to("torch.load");
    const bool read_again = std::any_of(loads.begin(), loads.end(), [&](const Call* load) {
      const NodeId loaded = context.script.argument(*load, "f", 0);
      return last_part(context.tree.text(loaded)) == last_part(context.tree.text(path));
    });
    if (!read_again) continue;
    context.add("CKPT025", Severity::kWarning, save->node,
                fmt::format("{} is overwritten in place: a kill while it is written leaves no "
                            "checkpoint to resume from",
                            context.quoted(path)));
    return;
  }
}

// What the script loads into a wrapped model again needs the prefix.
bool loads_into_wrapped(const Context& context) {
  const std::vector<const Call*> loads = context.script.calls_to("load_state_dict");
  return std::any_of(loads.begin(), loads.end(), [&](const Call* load) {
    const NodeId callee = context.tree.child(load->node, "function");
    return context.is_wrapped(context.tree.child(callee, "object"));
  });
}

void check_prefix(Context& context) {
  if (loads_into_wrapped(context)) return;
  for (const Call* call : context.script.calls_to("state_dict")) {
    const NodeId model = context.tree.child(context.tree.child(call->node, "function"), "object");
    if (!context.is_wrapped(model) || context.is_fsdp_wrapped(model)) continue;
    NodeId at = call->node;
    while (at != kNoNode) {
      const Call* outer = context.script.call_at(at);
      if (outer != nullptr && outer->name == "torch.save") break;
      at = context.tree.parent(at);
    }
    if (at == kNoNode) continue;
    Finding& finding = context.add(
        "CKPT026", Severity::kNote, call->node,
        fmt::format("the keys of {} begin with \"module.\": only a wrapped model loads them",
                    context.quoted(call->node)));
    // A name that is sometimes the plain model has no .module.
    if (context.script.assignments_to(context.tree.text(model), call->function).size() == 1) {
      finding.edits.push_back(
          {.begin = context.tree.end(model), .end = context.tree.end(model), .text = ".module"});
    }
    return;
  }
}

}  // namespace

void check_saving(Context& context) {
  if (context.facts.trainer()) return check_pretrained(context);
  check_in_place(context);
  if (!context.facts.distributed || context.facts.xla) return;
  check_all_ranks(context);
  check_pretrained(context);
  check_read_after(context);
  check_prefix(context);
}

}  // namespace shanty::lint
