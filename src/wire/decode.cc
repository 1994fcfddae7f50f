#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "wire/embedded.h"
#include "wire/fields.h"
#include "wire/messages.h"

namespace shanty::wire {
namespace {

using Json = nlohmann::json;

// Takes the members of one JSON object. The first thing that is wrong is kept in `error`, which
// all readers of a message share; after it the rest is of no interest. An absent member leaves the
// field as it is.
class Reader {
 public:
  Reader(const Json& node, std::string path, std::optional<Error>& error)
      : node_(node), path_(std::move(path)), error_(error) {
    if (!node_.is_object()) fail("", "is not an object");
  }

  void require(std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (find(key) == nullptr) fail(key, "is missing");
    }
  }

  template <typename Int>
  void integer(const char* key, Int& out, Int min = std::numeric_limits<Int>::min(),
               Int max = std::numeric_limits<Int>::max()) {
    if (const Json* value = find(key)) read_integer(key, *value, out, min, max);
  }

  void number(const char* key, double& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (value->is_null()) {
      out = std::numeric_limits<double>::quiet_NaN();
    } else if (value->is_number()) {
      out = value->get<double>();
    } else {
      fail(key, "is not a number");
    }
  }

  void boolean(const char* key, bool& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(key, "is not true or false");
    out = value->get<bool>();
  }

  void text(const char* key, std::string& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    const auto* string = value->get_ptr<const Json::string_t*>();
    if (string == nullptr) return fail(key, "is not a text");
    if (string->size() > gang::kMaxTextBytes) return too_long(key, gang::kMaxTextBytes, "bytes");
    out = *string;
  }

  void step(const char* key, uint64_t& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    out = gang::kNoStep;
    if (!value->is_null()) read_integer(key, *value, out, uint64_t{0}, gang::kNoStep - 1);
  }

  template <typename Enum, typename Names>
  void choice(const char* key, Enum& out, const Names& names) {
    const Json* value = find(key);
    if (value == nullptr) return;
    const auto* string = value->get_ptr<const Json::string_t*>();
    for (size_t i = 0; string != nullptr && i < names.size(); ++i) {
      if (*string != names[i]) continue;
      out = static_cast<Enum>(i);
      return;
    }
    fail(key, "is none of the words that it may be");
  }

  template <typename T, typename Fields>
  void object(const char* key, T& out, Fields fields) {
    const Json* value = find(key);
    if (value == nullptr) return;
    Reader inner(*value, path_ + key + ".", error_);
    fields(inner, out);
  }

  template <typename T, typename Fields>
  void list(const char* key, std::vector<T>& out, size_t max, Keep /*keep*/, Fields fields) {
    const Json* value = find_list(key, max);
    if (value == nullptr) return;
    out.resize(value->size());
    for (size_t i = 0; i < out.size() && !error_; ++i) {
      Reader inner((*value)[i], path_ + key + "[" + std::to_string(i) + "].", error_);
      fields(inner, out[i]);
    }
  }

  void embedded(const char* key, std::string& out, size_t max_bytes) {
    if (const Json* value = find(key)) out = read_embedded(key, *value, max_bytes);
  }

  void embedded_list(const char* key, std::vector<std::string>& out, size_t max, size_t max_bytes) {
    const Json* value = find_list(key, max);
    if (value == nullptr) return;
    for (const Json& entry : *value) out.push_back(read_embedded(key, entry, max_bytes));
  }

 private:
  const Json* find(const char* key) {
    if (error_) return nullptr;
    const auto member = node_.find(key);
    return member == node_.end() ? nullptr : &*member;
  }

  const Json* find_list(const char* key, size_t max) {
    const Json* value = find(key);
    if (value == nullptr) return nullptr;
    if (!value->is_array()) {
      fail(key, "is not a list");
    } else if (value->size() > max) {
      too_long(key, max, "entries");
    }
    return error_ ? nullptr : value;
  }

  template <typename Int>
  void read_integer(const char* key, const Json& value, Int& out, Int min, Int max) {
    bool fits = false;
    if (value.is_number_unsigned()) {
      const auto number = value.get<uint64_t>();
      fits = std::cmp_greater_equal(number, min) && std::cmp_less_equal(number, max);
      if (fits) out = static_cast<Int>(number);
    } else if (value.is_number_integer()) {
      const auto number = value.get<int64_t>();
      fits = std::cmp_greater_equal(number, min) && std::cmp_less_equal(number, max);
      if (fits) out = static_cast<Int>(number);
    }
    if (fits) return;
    fail(key, "is not a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }

  std::string read_embedded(const char* key, const Json& value, size_t max_bytes) {
    if (!value.is_object()) {
      fail(key, "is not an object");
      return "";
    }
    std::string text = value.dump();
    if (text.size() > max_bytes) too_long(key, max_bytes, "bytes");
    if (nesting_depth(text) > kMaxEmbeddedDepth) fail(key, "is nested too deeply");
    return text;
  }

  void too_long(const char* key, size_t max, const char* unit) {
    fail(key, "is longer than " + std::to_string(max) + " " + unit);
  }

  void fail(const char* key, const std::string& what) {
    if (!error_) error_ = Error{path_ + key + " " + what};
  }

  const Json& node_;
  const std::string path_;
  std::optional<Error>& error_;
};

Status check_version(const Json& message) {
  const auto version = message.find("v");
  const bool number = version != message.end() && version->is_number_integer();
  if (number && *version == kVersion) return {};
  const std::string theirs = number ? "version " + version->dump() : "no known version";
  return Error{"the other end speaks " + theirs + " of the protocol and this one version " +
               std::to_string(kVersion) + ": install the same shanty on each node"};
}

template <typename Message, typename Fields>
Result<Message> read_message(const char* type, std::string_view text, Fields fields) {
  const std::string what = std::string("cannot read a message of the ") + type + ": ";
  if (text.size() > kMaxMessageBytes) {
    return Error{what + "it is longer than " + std::to_string(kMaxMessageBytes) + " bytes"};
  }
  if (nesting_depth(text) > kMaxDepth) return Error{what + "it is nested too deeply"};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{what + "it is not a JSON object"};
  TRY_STATUS(check_version(json).context("cannot read a message of the " + std::string(type)));
  const auto found = json.find("type");
  if (found == json.end() || *found != type) return Error{what + "its type is another"};
  Message message;
  std::optional<Error> error;
  Reader reader(json, "", error);
  fields(reader, message);
  if (error) return Error{what + error->message};
  return message;
}

}  // namespace

Result<AgentMessage> decode_agent_message(std::string_view text) {
  return read_message<AgentMessage>("agent", text,
                                    [](auto& v, auto& m) { agent_message_fields(v, m); });
}

Result<CoordinatorMessage> decode_coordinator_message(std::string_view text) {
  return read_message<CoordinatorMessage>(
      "coordinator", text, [](auto& v, auto& m) { coordinator_message_fields(v, m); });
}

}  // namespace shanty::wire
