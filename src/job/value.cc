#include "job/value.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

std::string found(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return std::string(node.kind_name());
  return in_quotes(node.text);
}

Error unexpected(const Key& key, const Slot& slot, const YamlNode& node) {
  return Error{
      fmt::format("{}: expected {}, found {}", key.path, expectation(key, slot), found(node))};
}

Status check_range(const Key& key, double value, std::string_view text) {
  if (value >= key.range.min && value <= key.range.max) return {};
  return Error{fmt::format("{} is {}, expected {}", key.path, printable(text), range_text(key))};
}

// Puts a value into a T* or optional<T>* slot.
template <typename T>
void store(const Slot& slot, T value) {
  std::visit(
      [&](auto field) {
        using Field = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<Field, T> || std::is_same_v<Field, std::optional<T>>) {
          *field = std::move(value);
        } else {
          CHECK(false);
        }
      },
      slot);
}

void store_auto(const Slot& slot) {
  std::visit(
      [](auto field) {
        using Field = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<Field, std::string>) {
          field->clear();
        } else if constexpr (requires { field->reset(); }) {
          field->reset();
        } else {
          CHECK(false);
        }
      },
      slot);
}

Result<uint64_t> whole_number(const Key& key, std::string_view text) {
  const auto number = parse_number(text);
  if (number.ok()) TRY_STATUS(check_range(key, *number, text));
  if (!number.ok() || std::floor(*number) != *number || *number > kMaxExactInteger) {
    return Error{fmt::format("{}: expected a whole number, {}, found {}", key.path, range_text(key),
                             in_quotes(text))};
  }
  return static_cast<uint64_t>(*number);
}

Status read_amount(const Key& key, const Slot& slot, std::string_view text,
                   Result<double> (*parse)(std::string_view)) {
  const double value = TRY(parse(text).context(std::string(key.path)));
  TRY_STATUS(check_range(key, value, text));
  store<double>(slot, value);
  return {};
}

Status read_bytes(const Key& key, const Slot& slot, std::string_view text) {
  const uint64_t bytes = TRY(parse_bytes(text).context(std::string(key.path)));
  TRY_STATUS(check_range(key, static_cast<double>(bytes), text));
  store<uint64_t>(slot, bytes);
  return {};
}

Status read_flag(const Key& key, const Slot& slot, const YamlNode& node) {
  const bool is_true = node.text == "true" || node.text == "True" || node.text == "TRUE";
  const bool is_false = node.text == "false" || node.text == "False" || node.text == "FALSE";
  if (node.is_quoted || (!is_true && !is_false)) return unexpected(key, slot, node);
  store<bool>(slot, is_true);
  return {};
}

Status read_path(const Key& key, const Slot& slot, const YamlNode& node) {
  const std::string& text = node.text;
  if (text.empty() || text.front() != '/') return unexpected(key, slot, node);
  if (("/" + text + "/").find("/../") != text.npos) {
    return Error{fmt::format("{}: {} must not contain \"..\"", key.path, in_quotes(text))};
  }
  if (text == "/") return Error{fmt::format("{}: \"/\" is not a place for it", key.path)};
  store<std::string>(slot, text);
  return {};
}

Status read_share_or_count(const Key& key, const Slot& slot, std::string_view text) {
  Warmup& warmup = *std::get<Warmup*>(slot);
  if (text.find('%') != text.npos) {
    warmup = {.share = TRY(parse_percent(text).context(std::string(key.path))), .steps = {}};
    return {};
  }
  const auto steps = whole_number(key, text);
  if (!steps.ok()) {
    return Error{fmt::format("{}: expected {}, found {}", key.path, expectation(key, slot),
                             in_quotes(text))};
  }
  warmup.steps = *steps;
  return {};
}

Status read_choice(const Key& key, const Slot& slot, const YamlNode& node) {
  const auto names = choice_names(slot);
  const auto at = std::find(names.begin(), names.end(), node.text);
  if (at == names.end()) {
    Error error = unexpected(key, slot, node);
    const std::string_view near = nearest_key(node.text, names);
    if (!near.empty()) error.message += fmt::format(", did you mean \"{}\"?", near);
    return error;
  }
  std::visit(
      [&](auto field) {
        using Field = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_enum_v<Field>) *field = static_cast<Field>(at - names.begin());
      },
      slot);
  return {};
}

Status read_text_list(const Key& key, const Slot& slot, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kSequence) return unexpected(key, slot, node);
  std::vector<std::string> texts;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::kScalar) return unexpected(key, slot, item);
    texts.push_back(item.text);
  }
  *std::get<std::vector<std::string>*>(slot) = std::move(texts);
  return {};
}

Status read_text_map(const Key& key, const Slot& slot, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kMapping) return unexpected(key, slot, node);
  EnvMap map;
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (node.items[i].kind != YamlNode::Kind::kScalar) {
      return Error{fmt::format("{}.{}: expected text, found {}", key.path,
                               printable(node.keys[i].text), node.items[i].kind_name())};
    }
    map.emplace_back(node.keys[i].text, node.items[i].text);
  }
  *std::get<EnvMap*>(slot) = std::move(map);
  return {};
}

Status read_node_range(const Key& key, const Slot& slot, const YamlNode& node) {
  NodeRange range;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string& name = node.keys[i].text;
    if (name != "min" && name != "max") {
      return Error{fmt::format("unknown key {} in nodes, expected min and max", in_quotes(name))};
    }
    if (node.items[i].kind != YamlNode::Kind::kScalar) return unexpected(key, slot, node.items[i]);
    (name == "min" ? range.min : range.max) = TRY(whole_number(key, node.items[i].text));
  }
  if (node.find("min") == nullptr || node.find("max") == nullptr) {
    return Error{"nodes: expected both min and max"};
  }
  *std::get<NodeRange*>(slot) = range;
  return {};
}

Status read_nodes(const Key& key, const Slot& slot, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kMapping) return read_node_range(key, slot, node);
  if (node.kind != YamlNode::Kind::kScalar) return unexpected(key, slot, node);
  const uint64_t nodes = TRY(whole_number(key, node.text));
  *std::get<NodeRange*>(slot) = {.min = nodes, .max = nodes};
  return {};
}

Status read_scalar(const Key& key, const YamlNode& node, const Slot& slot) {
  if (node.kind != YamlNode::Kind::kScalar) return unexpected(key, slot, node);
  if (accepts_auto(key.type) && node.text == "auto") {
    store_auto(slot);
    return {};
  }
  switch (key.type) {
    case KeyType::kText:
    case KeyType::kTextOrAuto:
      store<std::string>(slot, node.text);
      return {};
    case KeyType::kPath:
      return read_path(key, slot, node);
    case KeyType::kFlag:
    case KeyType::kFlagOrAuto:
      return read_flag(key, slot, node);
    case KeyType::kCount:
    case KeyType::kCountOrAuto:
      store<uint64_t>(slot, TRY(whole_number(key, node.text)));
      return {};
    case KeyType::kNumber:
      return read_amount(key, slot, node.text, parse_number);
    case KeyType::kBytesOrAuto:
      return read_bytes(key, slot, node.text);
    case KeyType::kDuration:
    case KeyType::kDurationOrAuto:
      return read_amount(key, slot, node.text, parse_duration_s);
    case KeyType::kBandwidth:
      return read_amount(key, slot, node.text, parse_bandwidth_bytes_per_s);
    case KeyType::kShareOrCount:
      return read_share_or_count(key, slot, node.text);
    case KeyType::kChoice:
      return read_choice(key, slot, node);
    case KeyType::kTextList:
    case KeyType::kTextMap:
    case KeyType::kNodes:
    case KeyType::kSection:
    case KeyType::kList:
      break;
  }
  CHECK(false);
  return {};
}

}  // namespace

Status read_value(const Key& key, const YamlNode& node, const Slot& slot) {
  if (node.kind == YamlNode::Kind::kNull) {
    return Error{fmt::format("{} has no value, expected {}; remove the line to leave it out",
                             key.path, expectation(key, slot))};
  }
  if (key.type == KeyType::kTextList) return read_text_list(key, slot, node);
  if (key.type == KeyType::kTextMap) return read_text_map(key, slot, node);
  if (key.type == KeyType::kNodes) return read_nodes(key, slot, node);
  return read_scalar(key, node, slot);
}

}  // namespace shanty
