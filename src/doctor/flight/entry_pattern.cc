#include "doctor/flight/entry_pattern.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace shanty::flight {
namespace {

constexpr size_t kMaxBytes = 4096;

template <typename T>
T load(const char* at) {
  T value = 0;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Bytes of operand behind an opcode that pushes one value; nullopt: it does something else.
std::optional<size_t> operand_of(uint8_t opcode, uint8_t next) {
  switch (opcode) {
    case 'h':
    case 'K':
      return 1;
    case 'M':
      return 2;
    case 'j':
    case 'J':
      return 4;
    case 'G':
      return 8;
    case 0x8A:
      return next == 8 ? std::optional<size_t>(9) : std::nullopt;
    case 'N':
    case 0x88:
    case 0x89:
    case ']':
      return 0;
    default:
      return std::nullopt;
  }
}

// Walks the opcodes: where each item of the dictionary begins, and which bytes are operands.
class Walk {
 public:
  explicit Walk(std::string_view bytes) : fixed_(bytes.size(), '\xff') {
    ok_ = bytes.size() >= 3 && bytes.size() <= kMaxBytes && bytes[0] == '}' && bytes[1] == '(';
    size_t at = 2;
    while (ok_ && at + 1 < bytes.size()) at += step(bytes, at);
    ok_ = ok_ && at + 1 == bytes.size() && bytes[at] == 'u' && marks_.empty() &&
          items_.size() % 2 == 0;
  }
  bool ok() const { return ok_; }
  const std::vector<size_t>& items() const { return items_; }
  const std::string& fixed() const { return fixed_; }

 private:
  size_t step(std::string_view bytes, size_t at) {
    const auto opcode = static_cast<uint8_t>(bytes[at]);
    if (const auto operand = operand_of(opcode, static_cast<uint8_t>(bytes[at + 1]))) {
      if (at + 1 + *operand >= bytes.size()) return fail();
      items_.push_back(at);
      // The length of a long integer is no operand: another one is another pattern.
      const size_t skip = opcode == 0x8A ? 1 : 0;
      std::fill_n(fixed_.begin() + static_cast<ptrdiff_t>(at + 1 + skip), *operand - skip, '\0');
      return 1 + *operand;
    }
    if (opcode == '(') {
      if (items_.empty()) return fail();
      marks_.push_back(items_.size());
      return 1;
    }
    if (opcode == 'e') {
      if (marks_.empty() || marks_.back() > items_.size()) return fail();
      items_.resize(marks_.back());
      marks_.pop_back();
      return 1;
    }
    if (opcode == 0x86) {
      const size_t floor = marks_.empty() ? 0 : marks_.back();
      if (items_.size() < floor + 2) return fail();
      items_.pop_back();
      return 1;
    }
    return fail();
  }

  size_t fail() {
    ok_ = false;
    return 1;
  }

  std::string fixed_;
  std::vector<size_t> items_;
  std::vector<size_t> marks_;
  bool ok_ = false;
};

Field field_at(const char* at, std::span<const Value> memo) {
  const size_t index = *at == 'h'   ? load<uint8_t>(at + 1)
                       : *at == 'j' ? load<uint32_t>(at + 1)
                                    : memo.size();
  return index < memo.size() ? ValueTree::field(memo[index]) : Field::kOther;
}

}  // namespace

std::optional<EntryPattern> EntryPattern::make(std::string_view bytes,
                                               std::span<const Value> memo) {
  const Walk walk(bytes);
  if (!walk.ok()) return std::nullopt;
  EntryPattern out;
  out.size_ = bytes.size();
  // Keys are fixed, though they stand behind opcodes whose operands are open.
  std::string fixed = walk.fixed();
  for (size_t i = 0; i + 1 < walk.items().size(); i += 2) {
    std::fill(fixed.begin() + static_cast<ptrdiff_t>(walk.items()[i]),
              fixed.begin() + static_cast<ptrdiff_t>(walk.items()[i + 1]), '\xff');
  }
  std::string padded(bytes);
  padded.resize((bytes.size() + 7) / 8 * 8);
  fixed.resize(padded.size());
  for (size_t at = 0; at < padded.size(); at += 8) {
    const auto mask = load<uint64_t>(fixed.data() + at);
    out.masks_.push_back(mask);
    out.words_.push_back(load<uint64_t>(padded.data() + at) & mask);
  }
  std::string context = out.take_fields(bytes, memo, walk.items());
  context.resize(padded.size());
  for (size_t at = 0; at < padded.size(); at += 8) {
    out.context_.push_back(load<uint64_t>(context.data() + at));
  }
  for (const size_t offset : {out.collective_seq_, out.p2p_seq_, out.created_}) {
    if (offset != 0 && std::string_view("KMJN\x8a").find(bytes[offset]) == std::string_view::npos) {
      return std::nullopt;  // not a plain number
    }
  }
  return out;
}

std::string EntryPattern::take_fields(std::string_view bytes, std::span<const Value> memo,
                                      std::span<const size_t> items) {
  std::string context(bytes.size(), '\0');
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const size_t begin = items[i + 1];
    const size_t end = i + 2 < items.size() ? items[i + 2] : bytes.size() - 1;
    switch (field_at(bytes.data() + items[i], memo)) {
      case Field::kCollectiveSeq:
        collective_seq_ = begin;
        break;
      case Field::kP2pSeq:
        p2p_seq_ = begin;
        break;
      case Field::kTimeCreated:
        created_ = begin;
        break;
      case Field::kPgId:
      case Field::kProcessGroup:
      case Field::kProfilingName:
      case Field::kInputSizes:
      case Field::kInputDtypes:
      case Field::kOutputSizes:
      case Field::kOutputDtypes:
      case Field::kState:
      case Field::kRetired:
      case Field::kIsP2p:
      case Field::kFrames:
        std::fill(context.begin() + static_cast<ptrdiff_t>(begin),
                  context.begin() + static_cast<ptrdiff_t>(end), '\xff');
        break;
      default:
        break;
    }
  }
  return context;
}

bool EntryPattern::fits(const char* at, size_t room) const {
  if (room < 8 * words_.size()) return false;
  for (size_t i = 0; i < words_.size(); ++i) {
    if ((load<uint64_t>(at + 8 * i) & masks_[i]) != words_[i]) return false;
  }
  return true;
}

// Four sums at once, since one multiplication takes longer than loading the next word.
uint64_t EntryPattern::context(const char* at) const {
  uint64_t sums[4] = {size_, 1, 2, 3};
  for (size_t i = 0; i < context_.size(); ++i) {
    uint64_t& sum = sums[i % 4];
    sum = (sum ^ (load<uint64_t>(at + 8 * i) & context_[i])) * 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29;
  }
  return mix(mix(mix(sums[0], sums[1]), sums[2]), sums[3]);
}

int64_t EntryPattern::number(const char* at, size_t offset) {
  if (offset == 0) return 0;
  switch (static_cast<uint8_t>(at[offset])) {
    case 'K':
      return load<uint8_t>(at + offset + 1);
    case 'M':
      return load<uint16_t>(at + offset + 1);
    case 'J':
      return load<int32_t>(at + offset + 1);
    case 0x8A:
      return load<int64_t>(at + offset + 2);
    default:
      return 0;
  }
}

}  // namespace shanty::flight
