#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "wire/embedded.h"
#include "wire/fields.h"
#include "wire/messages.h"
#include "wire/utf8.h"

namespace shanty::wire {
namespace {

// A message that would be too large is written again with shorter texts. With none at all the
// largest lists fit, and numbers are never touched.
constexpr size_t kTextLimits[] = {gang::kMaxTextBytes, 512, 64, 0};

class Writer {
 public:
  Writer(std::string& out, size_t text_limit) : out_(out), text_limit_(text_limit) { out_ += '{'; }

  void finish() { out_ += '}'; }

  void require(std::initializer_list<const char*> /*keys*/) {}

  template <typename Int, typename... Range>
  void integer(std::string_view key, const Int& value, Range... /*range*/) {
    name(key);
    append_number(value);
  }

  void number(std::string_view key, double value) {
    name(key);
    if (std::isfinite(value)) {
      append_number(value);
    } else {
      out_ += "null";
    }
  }

  void boolean(std::string_view key, bool value) {
    name(key);
    out_ += value ? "true" : "false";
  }

  void word(std::string_view key, std::string_view value) {
    name(key);
    append_json_string(out_, value);
  }

  void text(std::string_view key, std::string_view value) {
    // Beyond the limit this attempt is lost; it need not grow without bound.
    word(key, out_.size() > kMaxMessageBytes ? "" : clean_utf8(value, text_limit_));
  }

  void step(std::string_view key, uint64_t value) {
    name(key);
    if (value == gang::kNoStep) {
      out_ += "null";
    } else {
      append_number(value);
    }
  }

  template <typename Enum, typename Names>
  void choice(std::string_view key, Enum value, const Names& names) {
    const auto index = static_cast<size_t>(value);
    CHECK(index < names.size());
    word(key, names[index]);
  }

  template <typename T, typename Fields>
  void object(std::string_view key, const T& value, Fields fields) {
    name(key);
    write(value, fields);
  }

  template <typename T, typename Fields>
  void list(std::string_view key, const std::vector<T>& values, size_t max, Keep keep,
            Fields fields) {
    name(key);
    out_ += '[';
    const size_t count = std::min(values.size(), max);
    const size_t first = keep == Keep::kLast ? values.size() - count : 0;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += ',';
      write(values[first + i], fields);
    }
    out_ += ']';
  }

  void embedded(std::string_view key, const std::string& json, size_t max_bytes) {
    const std::string object = canonical_object(json, max_bytes);
    if (object.empty()) return;
    name(key);
    out_ += object;
  }

  void embedded_list(std::string_view key, const std::vector<std::string>& objects, size_t max,
                     size_t max_bytes) {
    name(key);
    out_ += '[';
    bool first = true;
    for (size_t i = objects.size() - std::min(objects.size(), max); i < objects.size(); ++i) {
      const std::string object = canonical_object(objects[i], max_bytes);
      if (object.empty()) continue;
      if (!std::exchange(first, false)) out_ += ',';
      out_ += object;
    }
    out_ += ']';
  }

 private:
  template <typename T, typename Fields>
  void write(const T& value, Fields fields) {
    Writer inner(out_, text_limit_);
    fields(inner, value);
    inner.finish();
  }

  void name(std::string_view key) {
    if (!std::exchange(first_, false)) out_ += ',';
    out_ += '"';
    out_ += key;
    out_ += "\":";
  }

  template <typename Number>
  void append_number(Number value) {
    char digits[32];
    const auto result = std::to_chars(digits, digits + sizeof digits, value);
    out_.append(digits, result.ptr);
  }

  std::string& out_;
  size_t text_limit_;
  bool first_ = true;
};

template <typename Message, typename Fields>
std::string write_message(std::string_view type, const Message& message, Fields fields) {
  std::string out;
  for (const size_t text_limit : kTextLimits) {
    out.clear();
    Writer writer(out, text_limit);
    writer.integer("v", kVersion);
    writer.word("type", type);
    fields(writer, message);
    writer.finish();
    if (out.size() <= kMaxMessageBytes) break;
  }
  CHECK(out.size() <= kMaxMessageBytes);
  return out;
}

}  // namespace

std::string encode(const AgentMessage& message) {
  return write_message("agent", message,
                       [](auto& v, const auto& m) { agent_message_fields(v, m); });
}

std::string encode(const CoordinatorMessage& message) {
  return write_message("coordinator", message,
                       [](auto& v, const auto& m) { coordinator_message_fields(v, m); });
}

}  // namespace shanty::wire
