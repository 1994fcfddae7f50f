#include "lint/python/context.h"

#include <algorithm>
#include <cctype>

namespace shanty::lint {

namespace {

constexpr size_t kMaxQuote = 60;
constexpr size_t kMaxWraps = 32;  // of models

bool any_of_root(const Script& script, std::initializer_list<std::string_view> roots) {
  return std::any_of(roots.begin(), roots.end(),
                     [&](std::string_view root) { return script.imports(root); });
}

// Frameworks whose trainers place samplers, guard writers and pick devices.
bool is_managed(const Script& script) {
  return any_of_root(script, {"pytorch_lightning",
                              "lightning",
                              "lightning_fabric",
                              "accelerate",
                              "deepspeed",
                              "composer",
                              "ignite",
                              "catalyst",
                              "colossalai",
                              "mmcv",
                              "mmengine",
                              "fairseq",
                              "detectron2",
                              "megatron",
                              "ray.train",
                              "fastai",
                              "horovod",
                              "nemo",
                              "transformers.Trainer",
                              "transformers.Seq2SeqTrainer",
                              "trl",
                              "torchtitan",
                              "shanty.Checkpointer",
                              "timm.utils.CheckpointSaver",
                              "opacus"});
}

// A loop that the script writes itself, around what Accelerate, DeepSpeed or Ray Train wrap.
bool is_own_loop(const Script& script) {
  const bool wraps = !script.calls_to("Accelerator").empty() ||
                     !script.calls_to("deepspeed.initialize").empty() ||
                     !script.calls_to("ray.train.torch.prepare_model").empty();
  return wraps && !script.calls_to("backward").empty() &&
         !any_of_root(script, {"pytorch_lightning", "lightning", "lightning_fabric",
                               "transformers.Trainer", "transformers.Seq2SeqTrainer", "trl"});
}

// Trainers whose users need not import torch.
bool brings_torch(const Script& script) {
  return any_of_root(script, {"torch", "pytorch_lightning", "lightning", "accelerate", "deepspeed",
                              "transformers.Trainer", "transformers.Seq2SeqTrainer", "trl"});
}

// Distributor = (DistributedDataParallel if use_cuda else DistributedDataParallelCPU)
bool names_wrapper(const SyntaxTree& tree, NodeId value) {
  if (tree.is(value, "parenthesized_expression")) value = tree.first_child(value);
  if (!tree.is(value, "conditional_expression") && !tree.is(value, "attribute") &&
      !tree.is(value, "identifier")) {
    return false;
  }
  const std::string_view text = tree.text(value);
  return text.find("DistributedDataParallel") != text.npos && text.find('(') == text.npos;
}

}  // namespace

Context::Context(const Script& script_in, const std::string& file)
    : script(script_in), tree(script_in.tree()), ranks(script), guards(script, ranks), file_(file) {
  for (const std::string_view name : {"DistributedDataParallel", "DDP"}) {
    for (const Call* call : script.calls_to(name)) {
      // A class of the script by that name is something else.
      if (script.targets_of(*call).empty()) ddp_calls_.push_back(call);
    }
  }
  for (const Assignment& one : script.assignments()) {
    if (!names_wrapper(tree, one.value)) continue;
    for (const Call* call : script.calls_to(one.target)) ddp_calls_.push_back(call);
  }
  for (const std::string_view name : {"FullyShardedDataParallel", "FSDP", "fully_shard"}) {
    for (const Call* call : script.calls_to(name)) fsdp_calls_.push_back(call);
  }
  for (auto* calls : {&ddp_calls_, &fsdp_calls_}) {
    if (calls->size() > kMaxWraps) calls->resize(kMaxWraps);
  }
  facts = facts_of(*this);
}

Finding& Context::add(std::string_view code, Severity severity, NodeId node, std::string message) {
  if (findings_.size() >= kMaxFindings) return dropped_ = {};
  const Place place = tree.place(node);
  findings_.push_back({.code = std::string(code),
                       .severity = severity,
                       .file = file_,
                       .line = place.line,
                       .column = place.column,
                       .message = std::move(message)});
  return findings_.back();
}

std::string Context::quoted(NodeId node) const {
  std::string out;
  for (const char c : tree.text(node)) {
    const bool blank = c == '\n' || c == '\t' || c == '\r' || c == ' ';
    if (blank && !out.empty() && out.back() == ' ') continue;
    out += blank ? ' ' : c;
    if (out.size() >= kMaxQuote) return out + "...";
  }
  return out;
}

std::vector<const Call*> Context::training_loaders() const {
  std::vector<const Call*> out;
  for (const Call* call : script.calls_to("DataLoader")) {
    if (!call->name.starts_with("torch.utils.data")) continue;
    const std::string_view name = given_name(*call);
    const NodeId data = script.argument(*call, "dataset", 0);
    if (mentions_any(name, {"val", "test", "eval", "dev", "infer", "query"}) ||
        mentions_any(tree.text(data), {"val", "test", "eval", "dev_", "synth", "fake", "dummy"})) {
      continue;
    }
    out.push_back(call);
  }
  return out;
}

std::string_view Context::given_name(const Call& call) const {
  for (NodeId at = tree.parent(call.node); at != kNoNode; at = tree.parent(at)) {
    if (tree.is(at, "assignment")) return tree.text(tree.child(at, "left"));
    if (tree.is(at, "keyword_argument")) return tree.text(tree.child(at, "name"));
    if (tree.is(at, "block") || tree.is(at, "module") || tree.is(at, "argument_list")) break;
  }
  const FunctionId function = call.function;
  if (function == kModule) return {};
  return script.functions()[static_cast<size_t>(function)].name;
}

bool Context::is_conditional(NodeId node) const {
  for (NodeId at = tree.parent(node); at != kNoNode; at = tree.parent(at)) {
    if (tree.is(at, "function_definition")) return false;
    if (!tree.is(at, "if_statement")) continue;
    if (tree.text(tree.child(at, "condition")).find("__name__") == std::string_view::npos) {
      return true;
    }
  }
  return false;
}

NodeId Context::epoch_loop() const {
  for (const Assignment& one : script.assignments()) {
    if (tree.is(one.node, "for_statement") && mentions_any(one.target, {"epoch"})) return one.node;
  }
  return kNoNode;
}

NodeId Context::training_loop() const {
  for (const Call* call : script.calls_to("backward")) {
    const NodeId loop = script.loop_around(call->node);
    if (loop != kNoNode) return loop;
  }
  return kNoNode;
}

bool Context::holds_call_of(NodeId expression, const std::vector<const Call*>& calls) const {
  const auto is_one = [&](NodeId node) {
    return std::any_of(calls.begin(), calls.end(), [&](const Call* c) { return c->node == node; });
  };
  if (is_one(expression)) return true;
  if (!tree.is(expression, "identifier") && !tree.is(expression, "attribute")) return false;
  for (const Assignment* one :
       script.assignments_to(tree.text(expression), script.function_of(expression))) {
    if (one->value != kNoNode && is_one(one->value)) return true;
  }
  return false;
}

bool Context::is_wrapped(NodeId expression) const { return holds_call_of(expression, ddp_calls()); }

bool Context::is_fsdp_wrapped(NodeId expression) const {
  return holds_call_of(expression, fsdp_calls());
}

bool mentions_any(std::string_view text, std::initializer_list<std::string_view> words) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
  });
}

ScriptFacts facts_of(const Context& context) {
  const Script& script = context.script;
  ScriptFacts facts;
  if (!brings_torch(script)) return facts;
  if (any_of_root(script, {"unittest", "pytest", "torch.testing"})) return facts;
  facts.ddp = !context.ddp_calls().empty();
  facts.fsdp = !context.fsdp_calls().empty();
  facts.managed = is_managed(script);
  facts.own_loop = facts.managed && is_own_loop(script);
  facts.xla = script.imports("torch_xla");
  facts.spawns = !script.calls_to("torch.multiprocessing.spawn").empty() ||
                 !script.calls_to("torch.multiprocessing.start_processes").empty();
  for (const Call* call : script.calls_to("Process")) {
    facts.spawns |= call->imported && call->name.find("multiprocessing") != std::string::npos &&
                    script.argument(*call, "target") != kNoNode &&
                    !script.calls_to("init_process_group").empty();
  }
  bool group = false;
  for (const Call& call : script.calls()) {
    const std::string_view last = call.last();
    const bool of_torch = call.name.starts_with("torch.distributed.");
    group |= last == "init_process_group" || last == "init_device_mesh";
    facts.distributed |= of_torch && (last == "get_rank" || last == "barrier" ||
                                      last == "all_reduce" || last == "get_world_size");
    facts.trains |= last == "backward" || (last == "fit" && facts.managed) ||
                    (last == "train" && call.name.find("rainer") != std::string::npos);
    facts.gpu |= last == "cuda" || last == "set_device";
    facts.resumes |= last == "load_state_dict" && call.name.find("ptim") != std::string::npos;
  }
  for (const Call* init : script.calls_to("init_process_group")) {
    if (context.tree.text(script.argument(*init, "world_size")) == "1") facts.alone = true;
  }
  facts.distributed |= group || facts.ddp || facts.fsdp || facts.own_loop;
  facts.trains |= group || facts.ddp || facts.fsdp;
  const std::string_view text = context.tree.source();
  // A module whose trainer is in another file.
  facts.trains |= facts.managed && text.find("LightningModule") != std::string_view::npos &&
                  text.find("def training_step") != std::string_view::npos;
  facts.gpu |= text.find("\"cuda") != std::string_view::npos ||
               text.find("'cuda") != std::string_view::npos ||
               text.find("\"nccl\"") != std::string_view::npos ||
               text.find("'nccl'") != std::string_view::npos ||
               text.find("use_gpu=True") != std::string_view::npos;
  facts.distributed |= text.find("LOCAL_RANK\"") != std::string_view::npos ||
                       text.find("LOCAL_RANK'") != std::string_view::npos;
  if (facts.alone) facts.distributed = facts.ddp = facts.fsdp = false;
  return facts;
}

}  // namespace shanty::lint
