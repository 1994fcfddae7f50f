#include "lint/python/script.h"

#include <algorithm>

namespace shanty::lint {

namespace {

// One name for what torch calls by several.
std::string canonical(std::string name) {
  static constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"torch.distributed.distributed_c10d.", "torch.distributed."},
      {"torch.nn.parallel.distributed.", "torch.nn.parallel."},
      {"torch.utils.data.distributed.", "torch.utils.data."},
      {"torch.utils.data.dataloader.", "torch.utils.data."},
      {"torch.multiprocessing.spawn.spawn", "torch.multiprocessing.spawn"},
      {"lightning.pytorch.", "pytorch_lightning."},
  };
  for (const auto& [from, to] : kSame) {
    if (name.starts_with(from)) return std::string(to) + name.substr(from.size());
  }
  return name;
}

std::string_view root_of(std::string_view dotted) { return dotted.substr(0, dotted.find('.')); }

constexpr size_t kMaxChain = 32;       // parts of a dotted name
constexpr ptrdiff_t kMaxTargets = 16;  // functions of one name; more are not told apart
constexpr size_t kMaxUses = 256;       // looked at for one name

}  // namespace

std::string_view environment_key(std::string_view target) {
  if (target.find("environ[") == std::string_view::npos) return {};
  const size_t begin = target.find_first_of("\"'");
  if (begin == std::string_view::npos) return {};
  const size_t end = target.find_first_of("\"'", begin + 1);
  return end == std::string_view::npos ? std::string_view{}
                                       : target.substr(begin + 1, end - begin - 1);
}

Script::Script(SyntaxTree tree) : tree_(std::move(tree)) { gather(); }

void Script::gather() {
  for (NodeId node = 0; node < tree_.size(); ++node) {
    const std::string_view kind = tree_.kind(node);
    if (kind == "import_statement") add_import(node);
    if (kind == "import_from_statement") add_import_from(node);
    if (kind == "function_definition") add_function(node);
  }
  for (NodeId node = 0; node < tree_.size(); ++node) {
    const std::string_view kind = tree_.kind(node);
    if (kind == "call") add_call(node);
    if (kind == "assignment" || kind == "for_statement" || kind == "augmented_assignment") {
      const bool visible = kind == "assignment";
      add_assignment(node, tree_.child(node, "left"),
                     visible ? tree_.child(node, "right") : kNoNode);
    }
    if (kind == "named_expression") {
      add_assignment(node, tree_.child(node, "name"), tree_.child(node, "value"));
    }
    if (kind == "as_pattern_target" && tree_.first_child(node) != kNoNode) {
      add_assignment(node, tree_.first_child(node), tree_.first_child(tree_.parent(node)));
    }
    if (kind == "identifier" && by_name_.contains(tree_.text(node))) {
      const NodeId above = tree_.parent(node);
      const bool named = tree_.is(above, "function_definition") || tree_.in_field(node, "function");
      const bool attribute = tree_.is(above, "attribute") && tree_.in_field(node, "attribute");
      const bool called = attribute && tree_.in_field(above, "function");
      if (!named && !called && !tree_.in_field(node, "name") && !tree_.is(above, "parameters")) {
        function_names_.emplace(tree_.text(node), node);
      }
    }
  }
  for (size_t i = 0; i < assignments_.size(); ++i) by_target_.emplace(assignments_[i].target, i);
  for (size_t i = 0; i < calls_.size(); ++i) by_last_.emplace(calls_[i].last(), i);
}

void Script::add_import(NodeId statement) {
  for (const NodeId item : tree_.children(statement)) {
    if (tree_.is(item, "dotted_name")) {
      const std::string_view root = root_of(tree_.text(item));
      imports_[root] = root;
      modules_.emplace_back(tree_.text(item));
    }
    if (tree_.is(item, "aliased_import")) {
      const std::string name(tree_.text(tree_.child(item, "name")));
      imports_[tree_.text(tree_.child(item, "alias"))] = name;
      modules_.push_back(name);
    }
  }
}

void Script::add_import_from(NodeId statement) {
  const NodeId module = tree_.child(statement, "module_name");
  const std::string base(tree_.text(module));
  for (const NodeId item : tree_.children(statement)) {
    if (item == module) continue;
    const bool aliased = tree_.is(item, "aliased_import");
    if (!aliased && !tree_.is(item, "dotted_name")) continue;
    const NodeId name = aliased ? tree_.child(item, "name") : item;
    const std::string full = canonical(base + "." + std::string(tree_.text(name)));
    imports_[tree_.text(aliased ? tree_.child(item, "alias") : name)] = full;
    modules_.push_back(full);
  }
  modules_.push_back(base);
}

void Script::add_function(NodeId node) {
  Function function{.node = node, .name = tree_.text(tree_.child(node, "name"))};
  for (NodeId at = tree_.parent(node); at != kNoNode; at = tree_.parent(at)) {
    if (tree_.is(at, "function_definition")) break;
    if (!tree_.is(at, "class_definition")) continue;
    function.class_name = tree_.text(tree_.child(at, "name"));
    break;
  }
  const NodeId parameters = tree_.child(node, "parameters");
  for (NodeId parameter : tree_.children(parameters)) {
    const NodeId name = tree_.child(parameter, "name");
    if (name != kNoNode) {
      parameter = name;
    } else if (tree_.is(parameter, "typed_parameter")) {
      parameter = tree_.first_child(parameter);
    }
    function.parameters.push_back(tree_.text(parameter));
  }
  const NodeId above = tree_.parent(node);
  if (tree_.is(above, "decorated_definition")) {
    for (const NodeId item : tree_.children(above)) {
      if (tree_.is(item, "decorator")) function.decorators.push_back(tree_.text(item).substr(1));
    }
  }
  function.outer = enclosing(node);
  const FunctionId id = static_cast<FunctionId>(functions_.size());
  by_name_.emplace(function.name, id);
  if (function.name == "__init__") constructors_.emplace(function.class_name, id);
  functions_.push_back(std::move(function));
}

// Functions are gathered in reading order: what contains a node contains the last one before it
// too.
FunctionId Script::enclosing(NodeId node) const {
  auto at = std::upper_bound(functions_.begin(), functions_.end(), node,
                             [](NodeId n, const Function& f) { return n <= f.node; });
  FunctionId id = static_cast<FunctionId>(at - functions_.begin()) - 1;
  while (id != kModule && !tree_.contains(functions_[static_cast<size_t>(id)].node, node)) {
    id = functions_[static_cast<size_t>(id)].outer;
  }
  return id;
}

FunctionId Script::function_of(NodeId node) const { return enclosing(node); }

std::string Script::name_of(NodeId expression) const {
  std::vector<std::string_view> parts;
  NodeId at = expression;
  while (tree_.is(at, "attribute") && parts.size() < kMaxChain) {
    parts.push_back(tree_.text(tree_.child(at, "attribute")));
    at = tree_.child(at, "object");
  }
  std::string name;
  if (tree_.is(at, "identifier")) {
    const auto import = imports_.find(tree_.text(at));
    name = import == imports_.end() ? std::string(tree_.text(at)) : import->second;
  } else if (parts.empty()) {
    return {};
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) (name += '.') += *part;
  return canonical(std::move(name));
}

void Script::add_call(NodeId node) {
  const NodeId callee = tree_.child(node, "function");
  Call call{.node = node, .name = name_of(callee), .function = enclosing(node)};
  NodeId root = callee;
  for (size_t i = 0; i < kMaxChain && tree_.is(root, "attribute"); ++i) {
    root = tree_.child(root, "object");
  }
  call.imported = tree_.is(root, "identifier") && imports_.contains(tree_.text(root));
  calls_.push_back(std::move(call));
}

void Script::add_assignment(NodeId node, NodeId left, NodeId right) {
  if (left == kNoNode) return;
  const std::string_view kind = tree_.kind(left);
  if (kind == "identifier" || kind == "attribute" || kind == "subscript") {
    // `a = b = value` is an assignment whose right side is one.
    while (tree_.is(right, "assignment")) right = tree_.child(right, "right");
    assignments_.push_back(
        {.target = tree_.text(left), .value = right, .node = node, .function = enclosing(node)});
    return;
  }
  if (kind != "pattern_list" && kind != "tuple_pattern" && kind != "list_pattern") return;
  const std::vector<NodeId> targets = tree_.children(left);
  const std::vector<NodeId> values = tree_.is(right, "expression_list") || tree_.is(right, "tuple")
                                         ? tree_.children(right)
                                         : std::vector<NodeId>{};
  for (size_t i = 0; i < targets.size(); ++i) {
    const bool paired = values.size() == targets.size();
    if (!tree_.is(targets[i], "identifier") && !tree_.is(targets[i], "attribute")) continue;
    assignments_.push_back({.target = tree_.text(targets[i]),
                            .value = paired ? values[i] : kNoNode,
                            .node = node,
                            .function = enclosing(node)});
  }
}

std::vector<const Call*> Script::calls_to(std::string_view name) const {
  std::vector<const Call*> out;
  const auto [begin, end] = by_last_.equal_range(name.substr(name.rfind('.') + 1));
  for (auto at = begin; at != end; ++at) {
    const Call& call = calls_[at->second];
    if (call.name == name || name.find('.') == std::string_view::npos) out.push_back(&call);
  }
  return out;
}

bool Script::calls_any(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(),
                     [this](std::string_view name) { return !calls_to(name).empty(); });
}

bool Script::imports(std::string_view root) const {
  return std::any_of(modules_.begin(), modules_.end(), [root](std::string_view module) {
    return module == root || (module.starts_with(root) && module[root.size()] == '.');
  });
}

std::string_view Script::alias_of(std::string_view name) const {
  for (const auto& [alias, full] : imports_) {
    if (full == name) return alias;
  }
  return {};
}

const Call* Script::call_at(NodeId node) const {
  const auto at = std::lower_bound(calls_.begin(), calls_.end(), node,
                                   [](const Call& call, NodeId n) { return call.node < n; });
  return at != calls_.end() && at->node == node ? &*at : nullptr;
}

NodeId Script::argument(const Call& call, std::string_view name, int position) const {
  int index = 0;
  NodeId positional = kNoNode;
  for (const NodeId argument : tree_.children(tree_.child(call.node, "arguments"))) {
    if (tree_.is(argument, "keyword_argument")) {
      if (tree_.text(tree_.child(argument, "name")) == name) return tree_.child(argument, "value");
    } else if (!tree_.is(argument, "dictionary_splat")) {
      if (tree_.is(argument, "list_splat")) position = -1;  // who knows which one it is
      if (index++ == position) positional = argument;
    }
  }
  return positional;
}

bool Script::has_splat(const Call& call) const {
  for (const NodeId argument : tree_.children(tree_.child(call.node, "arguments"))) {
    if (tree_.is(argument, "dictionary_splat") || tree_.is(argument, "list_splat")) return true;
  }
  return false;
}

std::vector<const Assignment*> Script::assignments_to(std::string_view name,
                                                      FunctionId from) const {
  const auto [begin, end] = by_target_.equal_range(name);
  std::vector<const Assignment*> out;
  if (std::distance(begin, end) > static_cast<ptrdiff_t>(kMaxUses)) return out;
  if (name.find('.') != std::string_view::npos || name.find('[') != std::string_view::npos) {
    for (auto at = begin; at != end; ++at) out.push_back(&assignments_[at->second]);
    return out;
  }
  for (FunctionId scope = from;;) {
    for (auto at = begin; at != end; ++at) {
      if (assignments_[at->second].function == scope) out.push_back(&assignments_[at->second]);
    }
    if (!out.empty() || scope == kModule) return out;
    const Function& function = functions_[static_cast<size_t>(scope)];
    if (std::count(function.parameters.begin(), function.parameters.end(), name) != 0) return out;
    scope = function.outer;
  }
}

std::vector<FunctionId> Script::targets_of(const Call& call) const {
  std::vector<FunctionId> out;
  if (call.imported || call.name.empty()) return out;
  const bool dotted = call.name.find('.') != std::string::npos;
  const auto [begin, end] = by_name_.equal_range(call.last());
  if (std::distance(begin, end) > kMaxTargets) return out;
  for (auto at = begin; at != end; ++at) {
    const Function& function = functions_[static_cast<size_t>(at->second)];
    if (function.class_name.empty() != dotted) out.push_back(at->second);
  }
  const auto made = constructors_.find(call.name);
  if (!dotted && made != constructors_.end()) out.push_back(made->second);
  return out;
}

std::vector<Script::Use> Script::uses_of(FunctionId id) const {
  const Function& function = functions_[static_cast<size_t>(id)];
  std::vector<Use> out;
  if (function.name != "__init__" &&
      std::distance(by_name_.lower_bound(function.name), by_name_.upper_bound(function.name)) >
          kMaxTargets) {
    return out;
  }
  const std::string_view callee = function.name == "__init__" ? function.class_name : function.name;
  size_t looked_at = 0;
  const auto [begin, end] = by_last_.equal_range(callee);
  for (auto at = begin; at != end && looked_at < kMaxUses; ++at, ++looked_at) {
    const Call& call = calls_[at->second];
    const std::vector<FunctionId> targets = targets_of(call);
    if (std::count(targets.begin(), targets.end(), id) != 0) out.push_back({call.node, &call});
  }
  const auto [first, last] = function_names_.equal_range(function.name);
  for (auto at = first; at != last && looked_at < kMaxUses; ++at, ++looked_at) {
    out.push_back({at->second, nullptr});
  }
  return out;
}

std::string_view Script::literal(NodeId string) const {
  if (!tree_.is(string, "string")) return {};
  std::string_view content;
  for (const NodeId part : tree_.children(string)) {
    if (tree_.is(part, "interpolation")) return {};
    if (tree_.is(part, "string_content")) content = tree_.text(part);
  }
  return content;
}

NodeId Script::loop_around(NodeId node) const {
  for (NodeId at = tree_.parent(node); at != kNoNode; at = tree_.parent(at)) {
    if (tree_.is(at, "function_definition") || tree_.is(at, "class_definition")) return kNoNode;
    if (tree_.is(at, "for_statement") || tree_.is(at, "while_statement")) return at;
  }
  return kNoNode;
}

}  // namespace shanty::lint
