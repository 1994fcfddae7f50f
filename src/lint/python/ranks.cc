#include "lint/python/ranks.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace shanty::lint {

namespace {

constexpr int kMaxDepth = 12;  // names, calls and operators looked through
constexpr size_t kMaxValues = 24;
constexpr size_t kMaxSteps = 2000;  // of one question

struct Word {
  std::string_view word;
  RankKind kind;
};

constexpr Word kVariables[] = {
    {"RANK", RankKind::kGlobal},
    {"SLURM_PROCID", RankKind::kGlobal},
    {"OMPI_COMM_WORLD_RANK", RankKind::kGlobal},
    {"PMI_RANK", RankKind::kGlobal},
    {"LOCAL_RANK", RankKind::kLocal},
    {"SLURM_LOCALID", RankKind::kLocal},
    {"OMPI_COMM_WORLD_LOCAL_RANK", RankKind::kLocal},
    {"MPI_LOCALRANKID", RankKind::kLocal},
    {"GROUP_RANK", RankKind::kNode},
    {"NODE_RANK", RankKind::kNode},
    {"SLURM_NODEID", RankKind::kNode},
    {"WORLD_SIZE", RankKind::kWorld},
    {"SLURM_NTASKS", RankKind::kWorld},
    {"OMPI_COMM_WORLD_SIZE", RankKind::kWorld},
    {"LOCAL_WORLD_SIZE", RankKind::kLocalWorld},
    {"SLURM_NTASKS_PER_NODE", RankKind::kLocalWorld},
};

// Names as people use them, and last parts of attributes and of functions that are not here.
constexpr Word kNames[] = {
    {"rank", RankKind::kGlobal},
    {"global_rank", RankKind::kGlobal},
    {"ddp_rank", RankKind::kGlobal},
    {"get_rank", RankKind::kGlobal},
    {"get_global_rank", RankKind::kGlobal},
    {"get_world_rank", RankKind::kGlobal},
    {"world_rank", RankKind::kGlobal},
    {"process_index", RankKind::kGlobal},
    {"dist_rank", RankKind::kGlobal},
    {"local_rank", RankKind::kLocal},
    {"localrank", RankKind::kLocal},
    {"ddp_local_rank", RankKind::kLocal},
    {"get_local_rank", RankKind::kLocal},
    {"get_node_local_rank", RankKind::kLocal},
    {"local_process_index", RankKind::kLocal},
    {"node_rank", RankKind::kNode},
    {"world_size", RankKind::kWorld},
    {"get_world_size", RankKind::kWorld},
    {"num_processes", RankKind::kWorld},
    {"ddp_world_size", RankKind::kWorld},
    {"device_count", RankKind::kLocalWorld},
    {"local_world_size", RankKind::kLocalWorld},
    {"ngpus_per_node", RankKind::kLocalWorld},
    {"n_gpus_per_node", RankKind::kLocalWorld},
    {"gpus_per_node", RankKind::kLocalWorld},
    {"nproc_per_node", RankKind::kLocalWorld},
    {"get_local_size", RankKind::kLocalWorld},
};

template <size_t N>
RankKind look_up(const Word (&words)[N], std::string_view word) {
  for (const Word& entry : words) {
    if (entry.word == word) return entry.kind;
  }
  return RankKind::kUnknown;
}

std::string lower_letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += (c >= 'A' && c <= 'Z') ? static_cast<char>(c + 32) : c;
  }
  return out;
}

std::string_view last_part(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// Names of flags and functions that ask whether this process is the one that writes.
Who who_by_name(std::string_view name) {
  const std::string word = lower_letters(last_part(name));
  static constexpr std::string_view kAsks[] = {
      "ismain",       "ismaster",    "isrank0",     "isrankzero",    "ischief",
      "isglobalzero", "isroot",      "mainprocess", "masterprocess", "isfirstrank",
      "isprimary",    "isleader",    "rankzero",    "processzero",   "isglobalprimary",
      "globalmaster", "ishead",      "islogrank",   "ismainproc",    "isrank0process",
      "isrootrank",   "ismasterrank"};
  for (const std::string_view ask : kAsks) {
    if (word.find(ask) == std::string::npos) continue;
    const bool waits = word.find("first") != std::string::npos && ask == "mainprocess";
    if (waits) return Who::kAny;
    return word.find("local") == std::string::npos ? Who::kOne : Who::kOnePerNode;
  }
  return Who::kAny;
}

Split swapped(Split split) { return {split.if_false, split.if_true}; }

Split split_of(Who who) {
  if (who == Who::kOne) return {Who::kOne, Who::kAllButOne};
  if (who == Who::kOnePerNode) return {Who::kOnePerNode, Who::kAllButOnePerNode};
  return {};
}

Who stronger(Who a, Who b) {
  if (a == Who::kOne || b == Who::kOne) return Who::kOne;
  return a == Who::kAny ? b : a;
}

// torch.multiprocessing's, under whatever name it was imported.
bool spawns(const Call& call) { return call.last() == "spawn" || call.last() == "start_processes"; }

}  // namespace

RankValue Ranks::value(NodeId expression) const {
  steps_ = 0;
  return value(expression, kMaxDepth);
}

Split Ranks::split(NodeId condition) const {
  steps_ = 0;
  return split(condition, kMaxDepth);
}

bool Ranks::is_constant(NodeId node) const {
  if (node == kNoNode) return false;
  const std::string_view kind = tree_.kind(node);
  return kind == "integer" || kind == "none" || kind == "true" || kind == "false" ||
         kind == "string" ||
         (kind == "unary_operator" && is_constant(tree_.child(node, "argument")));
}

RankValue Ranks::value(NodeId expression, int depth) const {
  if (expression == kNoNode || depth <= 0 || ++steps_ > kMaxSteps) return {};
  const std::string_view kind = tree_.kind(expression);
  if (kind == "identifier" || kind == "attribute") return of_name(expression, depth);
  if (kind == "call") return of_call(expression, depth);
  if (kind == "subscript") {
    if (script_.name_of(tree_.child(expression, "value")).ends_with("environ")) {
      return of_environment(tree_.child(expression, "subscript"));
    }
    return {};
  }
  if (kind == "parenthesized_expression") return value(tree_.first_child(expression), depth - 1);
  if (kind == "binary_operator") return of_arithmetic(expression, depth);
  if (kind == "conditional_expression") {
    const std::vector<NodeId> parts = tree_.children(expression);
    return parts.size() == 3 ? join({parts[0], parts[2]}, depth) : RankValue{};
  }
  if (kind == "boolean_operator") {
    return join({tree_.child(expression, "left"), tree_.child(expression, "right")}, depth);
  }
  return {};
}

RankValue Ranks::of_environment(NodeId key) const {
  const RankKind kind = look_up(kVariables, script_.literal(key));
  return {kind, kind != RankKind::kUnknown};
}

// Constants (-1, 0, None for "not distributed") say nothing; two kinds contradict each other.
RankValue Ranks::join(const std::vector<NodeId>& values, int depth) const {
  RankValue out;
  if (values.size() > kMaxValues) return out;
  for (const NodeId node : values) {
    if (is_constant(node)) continue;
    const RankValue one = value(node, depth - 1);
    if (one.kind == RankKind::kUnknown) return {};
    if (out.kind != RankKind::kUnknown && out.kind != one.kind) return {};
    out = {one.kind, one.proven || out.proven};
  }
  return out;
}

RankValue Ranks::of_name(NodeId name, int depth) const {
  const std::string_view text = tree_.text(name);
  const FunctionId function = script_.function_of(name);
  std::vector<NodeId> values;
  const bool is_given = is_parameter(text, function);
  for (const Assignment* assignment : script_.assignments_to(text, function)) {
    if (tree_.contains(assignment->node, name)) continue;       // x = int(x)
    if (is_given && assignment->function == kModule) continue;  // another one of that name
    values.push_back(assignment->value);
  }
  if (!values.empty()) {
    const RankValue joined = join(values, depth);
    // What cannot be seen (a loop, a tuple) or says nothing (-1) leaves the name to speak.
    const bool silent = std::all_of(values.begin(), values.end(), [this](NodeId node) {
      return node == kNoNode || is_constant(node);
    });
    if (joined.kind != RankKind::kUnknown || !silent) return joined;
  }
  if (text.find('.') == std::string_view::npos) {
    const RankValue parameter = of_parameter(text, function, depth);
    if (parameter.kind != RankKind::kUnknown) return parameter;
  }
  std::string lowered(last_part(text));
  std::transform(lowered.begin(), lowered.end(), lowered.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {look_up(kNames, lowered), false};
}

bool Ranks::is_parameter(std::string_view name, FunctionId function) const {
  if (function == kModule) return false;
  const auto& parameters = script_.functions()[static_cast<size_t>(function)].parameters;
  return std::find(parameters.begin(), parameters.end(), name) != parameters.end();
}

// The function that `name` stands for is handed to spawn(), or to a function that hands it on.
bool Ranks::is_spawned(NodeId name, int depth) const {
  const Call* call = script_.call_at(tree_.ancestor(name, "call"));
  if (call == nullptr || depth <= 0 || ++steps_ > kMaxSteps) return false;
  if (spawns(*call)) return true;
  for (const FunctionId target : script_.targets_of(*call)) {
    const Function& function = script_.functions()[static_cast<size_t>(target)];
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      const std::string_view parameter = function.parameters[i];
      if (script_.argument(*call, parameter, static_cast<int>(i)) != name) continue;
      for (const Call& inner : script_.calls()) {
        const bool is_here = inner.function == target && spawns(inner);
        if (is_here && tree_.text(script_.argument(inner, "fn", 0)) == parameter) return true;
      }
    }
  }
  return false;
}

// Process(target=f, args=(i, n)) in a loop over i: the count of processes on this node.
RankValue Ranks::of_process(NodeId target, int position, int depth) const {
  const Call* call = script_.call_at(tree_.ancestor(target, "call"));
  if (call == nullptr || call->last() != "Process" || depth <= 0) return {};
  if (script_.argument(*call, "target") != target) return {};
  const NodeId args = script_.argument(*call, "args");
  if (!tree_.is(args, "tuple")) return {};
  const std::vector<NodeId> given = tree_.children(args);
  if (position < 0 || static_cast<size_t>(position) >= given.size()) return {};
  const NodeId one = given[static_cast<size_t>(position)];
  for (const Assignment* made : script_.assignments_to(tree_.text(one), script_.function_of(one))) {
    if (tree_.is(made->node, "for_statement")) return {RankKind::kSpawn, true};
  }
  return value(one, depth - 1);
}

// What callers in this file hand in; a parameter that nobody here fills is known by its name alone.
RankValue Ranks::of_parameter(std::string_view name, FunctionId function, int depth) const {
  for (; function != kModule; function = script_.functions()[static_cast<size_t>(function)].outer) {
    const Function& f = script_.functions()[static_cast<size_t>(function)];
    const auto at = std::find(f.parameters.begin(), f.parameters.end(), name);
    if (at == f.parameters.end()) continue;
    int position = static_cast<int>(at - f.parameters.begin());
    const bool method = !f.class_name.empty();
    std::vector<NodeId> values;
    for (const Script::Use& use : script_.uses_of(function)) {
      if (use.call != nullptr) {
        const NodeId given = script_.argument(*use.call, name, position - (method ? 1 : 0));
        if (given != kNoNode) values.push_back(given);
        continue;
      }
      if (position == 0 && is_spawned(use.node, depth)) return {RankKind::kSpawn, true};
      const RankValue given = of_process(use.node, position, depth);
      if (given.kind != RankKind::kUnknown) return given;
    }
    return values.empty() ? RankValue{} : join(values, depth);
  }
  return {};
}

RankValue Ranks::of_call(NodeId node, int depth) const {
  const Call* call = script_.call_at(node);
  if (call == nullptr) return {};
  const NodeId first = script_.argument(*call, "", 0);
  if (call->name == "int" || call->name == "str") return value(first, depth - 1);
  if (call->name.ends_with("environ.get") || call->name == "os.getenv")
    return of_environment(first);
  if (call->name.ends_with("environ.pop")) return of_environment(first);
  if (call->name.starts_with("torch.distributed.") && first != kNoNode) return {};  // of a group
  const std::vector<FunctionId> targets = script_.targets_of(*call);
  if (!targets.empty()) {
    std::vector<NodeId> values;
    for (const FunctionId target : targets) {
      const std::vector<NodeId> returned = returned_by(target);
      values.insert(values.end(), returned.begin(), returned.end());
    }
    if (!values.empty()) {
      const RankValue joined = join(values, depth);
      if (joined.kind != RankKind::kUnknown) return joined;
    }
  }
  const RankKind kind = look_up(kNames, call->last());
  return {kind, call->imported && kind != RankKind::kUnknown};
}

RankValue Ranks::of_arithmetic(NodeId expression, int depth) const {
  const std::string_view op = tree_.text(tree_.child(expression, "operator"));
  const RankValue left = value(tree_.child(expression, "left"), depth - 1);
  const RankValue right = value(tree_.child(expression, "right"), depth - 1);
  if (op == "%" && left.kind == RankKind::kGlobal) {
    return right.kind == RankKind::kLocalWorld ? RankValue{RankKind::kLocal, left.proven}
                                               : RankValue{};
  }
  const auto within_node = [](RankValue v) {
    return v.kind == RankKind::kLocal || v.kind == RankKind::kSpawn;
  };
  const bool offset = tree_.text(expression).find('*') != std::string_view::npos;
  if (op == "+" && offset && (within_node(left) || within_node(right))) {
    return {RankKind::kGlobal, true};
  }
  return {};
}

std::vector<NodeId> Ranks::returned_by(FunctionId id) const {
  std::vector<NodeId> out;
  const NodeId body = script_.functions()[static_cast<size_t>(id)].node;
  for (NodeId at = body; at < tree_.subtree_end(body) && out.size() < kMaxValues; ++at) {
    if (tree_.is(at, "return_statement") && script_.function_of(at) == id) {
      out.push_back(tree_.first_child(at));
    }
  }
  return out;
}

// "not distributed or rank == 0": the other half asks whether there are ranks at all.
bool Ranks::is_about_being_distributed(NodeId node) const {
  const std::string text = lower_letters(tree_.text(node));
  static constexpr std::string_view kWords[] = {"distributed", "worldsize", "ddp",      "isinit",
                                                "isavailable", "gpu",       "parallel", "rank",
                                                "none",        "dist",      "multi",    "debug"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&text](std::string_view word) {
    return text.find(word) != std::string::npos;
  });
}

Split Ranks::split(NodeId condition, int depth) const {
  if (condition == kNoNode || depth <= 0 || ++steps_ > kMaxSteps) return {};
  const std::string_view kind = tree_.kind(condition);
  if (kind == "parenthesized_expression") return split(tree_.first_child(condition), depth - 1);
  if (kind == "not_operator") return swapped(split(tree_.child(condition, "argument"), depth - 1));
  if (kind == "comparison_operator") return of_comparison(condition, depth);
  if (kind == "boolean_operator") return of_bool(condition, depth);
  if (kind == "identifier" || kind == "attribute" || kind == "call") {
    return of_named_flag(condition, depth);
  }
  if (kind == "conditional_expression") {
    const std::vector<NodeId> parts = tree_.children(condition);
    return parts.size() == 3 ? join_splits({parts[0], parts[2]}, depth) : Split{};
  }
  return {};
}

Split Ranks::of_comparison(NodeId comparison, int depth) const {
  const std::vector<NodeId> parts = tree_.children(comparison);
  if (parts.size() != 3) return {};
  std::string_view op = tree_.text(parts[1]);
  NodeId left = parts[0], right = parts[2];
  if (is_constant(left) && !is_constant(right)) {
    std::swap(left, right);
    if (op == "<" || op == "<=" || op == ">" || op == ">=") return {};
  }
  // `is_master == True` and the like
  if (tree_.is(right, "true") && (op == "==" || op == "is")) return split(left, depth - 1);
  if (tree_.is(right, "false") && (op == "==" || op == "is"))
    return swapped(split(left, depth - 1));

  RankValue rank = value(left, depth - 1);
  const std::string_view name = last_part(tree_.text(left));
  if (rank.kind == RankKind::kUnknown &&
      (name == "gpu" || name == "gpu_id" || name == "local_rank" || name == "device_id")) {
    rank.kind = RankKind::kLocal;
  }
  Who who = Who::kAny;
  if (rank.kind == RankKind::kGlobal || rank.kind == RankKind::kSpawn) who = Who::kOne;
  if (rank.kind == RankKind::kLocal) who = Who::kOnePerNode;
  if (who == Who::kAny) return {};
  const std::string_view value_text = tree_.text(right);
  const bool one = tree_.is(right, "integer") || tree_.is(right, "identifier") ||
                   tree_.is(right, "attribute") || tree_.is(right, "binary_operator") ||
                   tree_.is(right, "string");
  const bool has_zero = value_text.find('0') != std::string_view::npos;
  if (one && value_text != "-1") {
    if (op == "==" || op == "is" || (op == "<=" && value_text == "0") ||
        (op == "<" && value_text == "1")) {
      return split_of(who);
    }
    if (op == "!=" || op == "is not" || (op == ">" && value_text == "0") ||
        (op == ">=" && value_text == "1")) {
      return swapped(split_of(who));
    }
  }
  if (op == "in" && has_zero) return split_of(who);
  if (op == "not in" && has_zero) return swapped(split_of(who));
  return {};
}

Split Ranks::of_bool(NodeId expression, int depth) const {
  const NodeId left = tree_.child(expression, "left");
  const NodeId right = tree_.child(expression, "right");
  const Split a = split(left, depth - 1);
  const Split b = split(right, depth - 1);
  Split out;
  const auto through = [this](Who mine, NodeId other, Who others) {
    if (mine == Who::kAny) return Who::kAny;
    return others != Who::kAny || is_about_being_distributed(other) ? mine : Who::kAny;
  };
  if (tree_.text(tree_.child(expression, "operator")) == "and") {
    out.if_true = stronger(a.if_true, b.if_true);
    out.if_false =
        stronger(through(a.if_false, right, b.if_false), through(b.if_false, left, a.if_false));
  } else {
    out.if_false = stronger(a.if_false, b.if_false);
    out.if_true =
        stronger(through(a.if_true, right, b.if_true), through(b.if_true, left, a.if_true));
  }
  return out;
}

Split Ranks::join_splits(const std::vector<NodeId>& values, int depth) const {
  Split out;
  if (values.size() > kMaxValues) return out;
  for (const NodeId node : values) {
    if (is_constant(node)) continue;
    const Split one = split(node, depth - 1);
    if (one.if_true == Who::kAny && one.if_false == Who::kAny) return {};
    if (out.if_true != Who::kAny && one.if_true != out.if_true) return {};
    out = one;
  }
  return out;
}

Split Ranks::of_named_flag(NodeId node, int depth) const {
  if (tree_.is(node, "call")) {
    const Call* call = script_.call_at(node);
    if (call == nullptr) return {};
    if (call->name == "bool") return split(script_.argument(*call, "", 0), depth - 1);
    std::vector<NodeId> values;
    for (const FunctionId target : script_.targets_of(*call)) {
      const std::vector<NodeId> returned = returned_by(target);
      values.insert(values.end(), returned.begin(), returned.end());
    }
    const Split joined = join_splits(values, depth);
    return joined.if_true != Who::kAny ? joined : split_of(who_by_name(call->name));
  }
  std::vector<NodeId> values;
  for (const Assignment* one :
       script_.assignments_to(tree_.text(node), script_.function_of(node))) {
    if (one->value != kNoNode && !tree_.contains(one->node, node)) values.push_back(one->value);
  }
  const Split joined = join_splits(values, depth);
  if (joined.if_true != Who::kAny || joined.if_false != Who::kAny) return joined;
  // `if rank:` and `if not rank:`
  const RankValue rank = value(node, depth - 1);
  if (rank.kind == RankKind::kGlobal) return swapped(split_of(Who::kOne));
  if (rank.kind == RankKind::kLocal) return swapped(split_of(Who::kOnePerNode));
  return split_of(who_by_name(tree_.text(node)));
}

}  // namespace shanty::lint
