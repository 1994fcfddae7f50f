#include "logs/tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "logs/part.h"

namespace shanty {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kMaxNameBytes = 64 * 1024;

struct Header {
  std::string name;
  uint64_t size = 0;
  char type = '0';
};

std::string field(std::string_view block, size_t offset, size_t size) {
  const std::string_view text = block.substr(offset, size);
  return std::string(text.substr(0, text.find('\0')));
}

std::optional<uint64_t> octal(std::string_view text) {
  if (!text.empty() && (static_cast<unsigned char>(text[0]) & 0x80) != 0) {  // GNU: binary
    uint64_t value = 0;
    for (const char c : text.substr(text.size() - 8)) {
      value = (value << 8) | static_cast<unsigned char>(c);
    }
    return value;
  }
  uint64_t value = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7' || value > (std::numeric_limits<uint64_t>::max() >> 3)) {
      return std::nullopt;
    }
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool checksum_ok(std::string_view block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return octal(block.substr(148, 8)) == sum;
}

std::optional<Header> parse_header(std::string_view block) {
  const auto size = octal(block.substr(124, 12));
  if (!checksum_ok(block) || !size) return std::nullopt;
  Header header{.name = field(block, 0, 100), .size = *size, .type = block[156]};
  const std::string prefix = block.substr(257, 5) == "ustar" && block.substr(257, 8) != "ustar  "
                                 ? field(block, 345, 155)
                                 : "";
  if (!prefix.empty()) header.name = prefix + "/" + header.name;
  return header;
}

// The value of "path" in the records "LENGTH key=value\n" of a pax header.
std::string pax_path(std::string_view records) {
  while (!records.empty()) {
    size_t length = 0;
    const auto [end, error] =
        std::from_chars(records.data(), records.data() + records.size(), length);
    if (error != std::errc{} || length == 0 || length > records.size()) return "";
    const std::string_view record = records.substr(0, length);
    const size_t blank = record.find(' ');
    if (blank != record.npos && record.substr(blank + 1).starts_with("path=")) {
      return std::string(record.substr(blank + 6, record.size() - blank - 7));
    }
    records.remove_prefix(length);
  }
  return "";
}

}  // namespace

bool is_tar(std::string_view head) {
  return head.size() >= kBlock && head.substr(257, 5) == "ustar" && checksum_ok(head);
}

Status read_tar(ByteSource& archive,
                const std::function<void(const std::string&, ByteSource&)>& each) {
  std::string long_name;
  for (uint64_t files = 0; files < kMaxTarFiles; ++files) {
    char raw[kBlock];
    const size_t got = TRY(read_fully(archive, raw, kBlock));
    if (got == 0) return {};
    if (got < kBlock) return Error{"the archive ends in the middle"};
    const std::string_view block(raw, kBlock);
    if (block.find_first_not_of('\0') == block.npos) return {};
    const auto header = parse_header(block);
    if (!header) return Error{"the archive is damaged: a header's checksum does not fit"};

    Part content(archive, header->size);
    if (header->type == 'L' || header->type == 'x') {
      const std::string text = TRY(read_all(content, kMaxNameBytes));
      const std::string name =
          header->type == 'x' ? pax_path(text) : text.substr(0, text.find('\0'));
      if (!name.empty()) long_name = name;
    } else {
      if (header->type == '0' || header->type == '\0') {
        each(long_name.empty() ? header->name : long_name, content);
      }
      long_name.clear();
    }
    TRY_STATUS(pass_over(content));
    Part padding(archive, (kBlock - header->size % kBlock) % kBlock);
    TRY_STATUS(pass_over(padding));
  }
  return Error{"the archive holds too many files"};
}

}  // namespace shanty
