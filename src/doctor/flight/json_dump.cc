#include "doctor/flight/json_dump.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doctor/flight/pickle.h"

namespace shanty::flight {
namespace {

// Gets the events of nlohmann's parser; returning false ends the parse.
class Handler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Handler(ValueTree& tree, EntrySink& sink) : tree_(tree), sink_(sink) {}

  bool null() { return push({}); }
  bool boolean(bool value) { return push({Kind::kBool, 0, value ? 1 : 0}); }
  bool number_integer(number_integer_t value) { return push({Kind::kInt, 0, value}); }
  bool number_unsigned(number_unsigned_t value) {
    return push({Kind::kInt, 0, static_cast<int64_t>(value)});
  }
  bool number_float(number_float_t, const string_t&) { return push({Kind::kFloat, 0, 0}); }
  bool string(string_t& value) { return push(tree_.copied_string(std::move(value))); }
  bool binary(binary_t&) { return push({}); }
  bool key(string_t& value) { return push(tree_.copied_string(std::move(value))); }
  bool start_object(size_t) { return open(); }
  bool start_array(size_t) { return open(); }
  bool end_object() { return close(Kind::kDict); }
  bool end_array() { return close(Kind::kList); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    problem_ = fmt::format("the JSON is broken or torn at byte {}", position);
    return false;
  }

  const std::string& problem() const { return problem_; }
  Value root() const { return stack_.size() == 1 ? stack_.back() : Value(); }

 private:
  bool push(Value value) {
    stack_.push_back(value);
    return true;
  }
  bool open() {
    if (marks_.size() == kMaxJsonDepth) {
      problem_ = "the JSON nests too deeply";
      return false;
    }
    marks_.push_back(stack_.size());
    return true;
  }
  bool close(Kind kind) {
    const size_t first = marks_.back();
    marks_.pop_back();
    const std::span<const Value> values = std::span<const Value>(stack_).subspan(first);
    Value made{Kind::kEntry, 0, 0};
    if (kind == Kind::kDict && is_entry(values)) {
      sink_.on_entry(values, {});
    } else {
      made = tree_.container(kind);
      tree_.append(made.id, values);
    }
    stack_.resize(first);
    return push(made);
  }

  ValueTree& tree_;
  EntrySink& sink_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::string problem_;
};

}  // namespace

Result<Value> read_json_dump(std::string_view bytes, ValueTree& tree, EntrySink& sink) {
  if (bytes.size() > kMaxDumpBytes) return Error{"the JSON is larger than any dump"};
  Handler handler(tree, sink);
  try {
    if (nlohmann::json::sax_parse(bytes, &handler)) return handler.root();
  } catch (const std::exception& error) {
    return Error{fmt::format("the JSON cannot be read: {}", error.what())};
  }
  return Error{handler.problem()};
}

}  // namespace shanty::flight
