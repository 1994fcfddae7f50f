#include "doctor/flight/pickle.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace shanty::flight {
namespace {

static_assert(std::endian::native == std::endian::little);

// What is never done, by its name.
const char* dangerous_name(uint8_t opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 0x93:
      return "STACK_GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x81:
      return "NEWOBJ";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

class Machine {
 public:
  Machine(std::string_view bytes, ValueTree& tree, EntrySink& sink)
      : begin_(bytes.data()),
        at_(begin_),
        end_(begin_ + bytes.size()),
        tree_(tree),
        sink_(sink),
        stack_(kFirstRoom),
        top_(stack_.data()) {}

  Result<Value> run() {
    while (at_ < end_) {
      if (end_ - at_ >= kLongestOperand) run_common();
      opcode_at_ = at_;
      const auto opcode = static_cast<uint8_t>(*at_++);
      if (opcode == '.') {
        if (size() != 1 || !marks_.empty()) return fail("ends with an unfinished value");
        return stack_.front();
      }
      const char* problem = step(opcode);
      if (problem != nullptr) return problem == kRefused ? refuse(opcode) : fail(problem);
    }
    opcode_at_ = end_;
    return fail("is torn: it ends before its end mark");
  }

 private:
  static constexpr ptrdiff_t kLongestOperand = 16;
  static constexpr size_t kFirstRoom = 1024;
  static constexpr const char* kRefused = "";
  static constexpr const char* kTorn = "is torn inside a value";
  static constexpr const char* kUnderflow = "takes values that are not there";

  Error fail(const char* problem) const {
    return Error{fmt::format("the pickle {} at byte {}", problem, opcode_at_ - begin_)};
  }

  Error refuse(uint8_t opcode) const {
    if (const char* name = dangerous_name(opcode)) {
      return Error{fmt::format(
          "the pickle was refused: opcode {} at byte {} would make Python look up, build or call "
          "something, which no Flight Recorder dump does; nothing of it was executed",
          name, opcode_at_ - begin_)};
    }
    return Error{
        fmt::format("the pickle was refused: opcode 0x{:02x} at byte {} is not one that a "
                    "Flight Recorder dump holds",
                    opcode, opcode_at_ - begin_)};
  }

  // Nine of ten opcodes of a dump, while there is room for their operands, their values and no
  // doubt; step() does whatever this leaves. Twice as fast as step() alone.
  void run_common() {
    const char* at = at_;
    const char* const last = end_ - kLongestOperand;
    const Value* const memo = memo_.data();
    const size_t memos = memo_.size();
    while (at <= last) {
      if (top_ == stack_.data() + stack_.size()) grow();
      const auto first = static_cast<uint8_t>(at[1]);
      switch (static_cast<uint8_t>(*at)) {
        case 'h':
          if (first >= memos) return leave(at);
          *top_++ = memo[first];
          at += 2;
          continue;
        case 'j': {
          const auto index = peek<uint32_t>(at + 1);
          if (index >= memos) return leave(at);
          *top_++ = memo[index];
          at += 5;
          continue;
        }
        case 'K':
          *top_++ = {Kind::kInt, 0, first};
          at += 2;
          continue;
        case 'M':
          *top_++ = {Kind::kInt, 0, peek<uint16_t>(at + 1)};
          at += 3;
          continue;
        case 'J':
          *top_++ = {Kind::kInt, 0, peek<int32_t>(at + 1)};
          at += 5;
          continue;
        case 0x8A:
          if (first != 8) return leave(at);
          *top_++ = {Kind::kInt, 0, peek<int64_t>(at + 2)};
          at += 10;
          continue;
        case 'N':
          *top_++ = {Kind::kNone, 0, 0};
          ++at;
          continue;
        case 0x88:
        case 0x89:
          *top_++ = {Kind::kBool, 0, static_cast<uint8_t>(*at) == 0x88 ? 1 : 0};
          ++at;
          continue;
        case ']':
          *top_++ = tree_.container(Kind::kList);
          ++at;
          continue;
        case '(':
          if (mark() != nullptr) return leave(at);
          ++at;
          continue;
        default:
          return leave(at);
      }
    }
    leave(at);
  }

  void leave(const char* at) { at_ = at; }

  template <typename T>
  static T peek(const char* at) {
    T value = 0;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }

  size_t size() const { return static_cast<size_t>(top_ - stack_.data()); }
  void grow() {
    const size_t used = size();
    stack_.resize(2 * stack_.size());
    top_ = stack_.data() + used;
  }
  void drop(size_t count) { top_ -= count; }

  // nullptr: done. kRefused: not an opcode of ours. Else what is wrong.
  const char* step(uint8_t opcode) {
    switch (opcode) {
      case 'h':
        return get(number<uint8_t>());
      case 'j':
        return get(number<uint32_t>());
      case 'q':
        return put(number<uint8_t>());
      case 'r':
        return put(number<uint32_t>());
      case 0x94:
        return put(memo_.size());
      case 'K':
        return push_number(number<uint8_t>());
      case 'M':
        return push_number(number<uint16_t>());
      case 'J':
        return push_number(number<int32_t>());
      case 0x8A:
        return push_long(number<uint8_t>());
      case 0x8B:
        return push_long(number<uint32_t>());
      case 'G':
        return push_float();
      case 'N':
        return push({Kind::kNone, 0, 0});
      case 0x88:
        return push({Kind::kBool, 0, 1});
      case 0x89:
        return push({Kind::kBool, 0, 0});
      case 'X':
        return push_text(number<uint32_t>(), Kind::kString);
      case 0x8C:
        return push_text(number<uint8_t>(), Kind::kString);
      case 0x8D:
        return push_text(number<uint64_t>(), Kind::kString);
      case 'T':
        return push_text(number<uint32_t>(), Kind::kString);
      case 'U':
        return push_text(number<uint8_t>(), Kind::kString);
      case 'B':
        return push_text(number<uint32_t>(), Kind::kBytes);
      case 'C':
        return push_text(number<uint8_t>(), Kind::kBytes);
      case 0x8E:
        return push_text(number<uint64_t>(), Kind::kBytes);
      case '(':
        return mark();
      case '}':
        return begin_dict();
      case ']':
      case ')':
        return push(tree_.container(Kind::kList));
      case 'a':
        return append(1);
      case 's':
        return set_items(2);
      case 'e':
        return to_mark() ? append(taken_) : kUnderflow;
      case 'u':
        return to_mark() ? set_items(taken_) : kUnderflow;
      case 't':
      case 'l':
        return to_mark() ? make_list(taken_) : kUnderflow;
      case 'd':
        return to_mark() ? make_dict(taken_) : kUnderflow;
      case 0x85:
        return make_list(1);
      case 0x86:
        return make_list(2);
      case 0x87:
        return make_list(3);
      case 0x80:
        return check_protocol(number<uint8_t>());
      case 0x95:
        return number<uint64_t>(), torn_ ? kTorn : nullptr;  // a frame: only a hint
      default:
        return kRefused;
    }
  }

  template <typename T>
  T number() {
    T value = 0;
    torn_ = static_cast<size_t>(end_ - at_) < sizeof(T);
    if (torn_) return value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  const char* push(Value value) {
    if (size() == stack_.size()) grow();
    *top_++ = value;
    return nullptr;
  }

  const char* begin_dict() {
    const char* start = at_ - 1;
    const size_t known = sink_.take_known({start, static_cast<size_t>(end_ - start)});
    if (known > 0) {
      at_ = start + known;
      return push({Kind::kEntry, 0, 0});
    }
    Value dict = tree_.container(Kind::kDict);
    dict.number = start - begin_;
    return push(dict);
  }

  const char* push_number(int64_t value) {
    if (torn_) return kTorn;
    return push({Kind::kInt, 0, value});
  }

  const char* push_long(uint64_t size) {
    if (torn_ || size > static_cast<size_t>(end_ - at_)) return kTorn;
    if (size > 8) return "holds a number of more than 64 bits";
    uint64_t value = 0;
    std::memcpy(&value, at_, size);
    at_ += size;
    const bool negative = size > 0 && size < 8 && (at_[-1] & 0x80) != 0;
    if (negative) value |= ~uint64_t{0} << (8 * size);
    return push({Kind::kInt, 0, static_cast<int64_t>(value)});
  }

  const char* push_float() {
    number<uint64_t>();
    return torn_ ? kTorn : push({Kind::kFloat, 0, 0});  // no float is used
  }

  const char* push_text(uint64_t size, Kind kind) {
    if (torn_ || size > static_cast<size_t>(end_ - at_)) return kTorn;
    const std::string_view text(at_, size);
    at_ += size;
    return push(tree_.string(text, kind));
  }

  const char* mark() {
    if (marks_.size() == kMaxPickleDepth) return "nests too deeply";
    marks_.push_back(size());
    return nullptr;
  }

  bool to_mark() {
    if (marks_.empty() || marks_.back() > size()) return false;
    taken_ = size() - marks_.back();
    marks_.pop_back();
    return true;
  }

  // The container below the `count` values on top, of this kind; nullptr: it is not there.
  const Value* below(size_t count, Kind kind) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (size() < floor + count + 1) return nullptr;
    const Value& value = top_[-static_cast<ptrdiff_t>(count) - 1];
    return value.kind == kind ? &value : nullptr;
  }

  std::span<const Value> top(size_t count) const { return {top_ - count, count}; }

  const char* append(size_t count) {
    const Value* list = below(count, Kind::kList);
    if (list == nullptr) return kUnderflow;
    tree_.append(list->id, top(count));
    drop(count);
    return nullptr;
  }

  const char* set_items(size_t count) {
    if (count % 2 != 0) return "sets a key without a value";
    const Value* dict = below(count, Kind::kDict);
    if (dict == nullptr) return kUnderflow;
    if (is_entry(top(count))) {
      sink_.on_entry(top(count), {.bytes = {begin_ + dict->number, at_},
                                  .room = static_cast<size_t>(end_ - begin_ - dict->number),
                                  .memo = memo_});
      top_[-static_cast<ptrdiff_t>(count) - 1].kind = Kind::kEntry;
    } else {
      tree_.append(dict->id, top(count));
    }
    drop(count);
    return nullptr;
  }

  const char* make_list(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (size() < floor + count) return kUnderflow;
    const Value list = tree_.container(Kind::kList);
    tree_.append(list.id, top(count));
    drop(count);
    return push(list);
  }

  const char* make_dict(size_t count) {
    if (count % 2 != 0) return "sets a key without a value";
    push({});
    Value* first = top_ - count - 1;
    std::copy_backward(first, top_ - 1, top_);
    *first = tree_.container(Kind::kDict);
    first->number = at_ - begin_;  // an entry made in this way is not known again
    return set_items(count);
  }

  const char* put(size_t index) {
    if (torn_) return kTorn;
    if (size() == 0) return kUnderflow;
    if (index > puts_ + kMaxMemoGap) return "numbers its memo beyond what it holds";
    ++puts_;
    if (index >= memo_.size()) {
      memo_.resize(index + 1);
    } else {
      sink_.forget_known();
    }
    memo_[index] = top_[-1];
    return nullptr;
  }

  const char* get(size_t index) {
    if (torn_) return kTorn;
    if (index >= memo_.size()) return "asks for a memo that it never made";
    return push(memo_[index]);
  }

  const char* check_protocol(uint8_t protocol) {
    if (torn_) return kTorn;
    return protocol <= 5 ? nullptr : "is of a protocol later than 5";
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  const char* opcode_at_ = nullptr;
  bool torn_ = false;
  size_t taken_ = 0;
  size_t puts_ = 0;
  ValueTree& tree_;
  EntrySink& sink_;
  std::vector<Value> stack_;  // its room; the values end at top_
  Value* top_;
  std::vector<size_t> marks_;
  std::vector<Value> memo_;
};

}  // namespace

Result<Value> read_pickle(std::string_view bytes, ValueTree& tree, EntrySink& sink) {
  if (bytes.size() > kMaxDumpBytes) {
    return Error{fmt::format("the pickle has {} bytes; more than {} are not read", bytes.size(),
                             kMaxDumpBytes)};
  }
  return Machine(bytes, tree, sink).run();
}

bool looks_like_pickle(std::string_view bytes) {
  return bytes.size() >= 3 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

}  // namespace shanty::flight
