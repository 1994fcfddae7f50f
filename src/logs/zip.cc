#include "logs/zip.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <zlib.h>

#include <fmt/format.h>

#include "logs/part.h"

namespace shanty {
namespace {

constexpr size_t kHeaderBytes = 30;
constexpr size_t kChunk = 64 * 1024;
constexpr uint32_t kInZip64 = 0xffffffff;
constexpr std::string_view kLocalHeader = "PK\x03\x04";
constexpr std::string_view kDescriptor = "PK\x07\x08";
constexpr std::string_view kEmptyArchive = "PK\x05\x06";

constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kSizesFollow = 8;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kZstd = 93;

uint64_t little(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

struct Entry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  std::optional<uint64_t> packed;  // bytes in the archive; nullopt: told behind them only
};

// A 64-bit size of the extra field 1, whose first number is the unpacked size.
uint64_t zip64_packed_size(std::string_view extra, bool unpacked_too) {
  while (extra.size() >= 4) {
    const size_t size = static_cast<size_t>(little(extra.substr(2, 2)));
    const std::string_view field = extra.substr(4, size);
    const size_t at = unpacked_too ? 8 : 0;
    if (little(extra.substr(0, 2)) == 1) {
      return field.size() < at + 8 ? kInZip64 : little(field.substr(at, 8));
    }
    extra.remove_prefix(std::min(4 + size, extra.size()));
  }
  return kInZip64;
}

// nullopt: no further entry.
Result<std::optional<Entry>> read_header(PeekSource& archive) {
  if (!archive.peek(kLocalHeader.size()).starts_with(kLocalHeader)) {
    if (archive.peek(2).starts_with("PK")) return std::optional<Entry>();  // its directory
    return Error{archive.peek(1).empty() ? "the archive ends in the middle"
                                         : "the archive is damaged: no header where one must be"};
  }
  std::array<char, kHeaderBytes> raw{};
  if (TRY(read_fully(archive, raw.data(), raw.size())) < raw.size()) {
    return Error{"the archive ends in the middle"};
  }
  const std::string_view head(raw.data(), raw.size());
  const size_t name_bytes = static_cast<size_t>(little(head.substr(26, 2)));
  const size_t extra_bytes = static_cast<size_t>(little(head.substr(28, 2)));
  std::string rest(name_bytes + extra_bytes, '\0');
  if (TRY(read_fully(archive, rest.data(), rest.size())) < rest.size()) {
    return Error{"the archive ends in the middle"};
  }
  Entry entry{.name = rest.substr(0, name_bytes),
              .flags = static_cast<uint16_t>(little(head.substr(6, 2))),
              .method = static_cast<uint16_t>(little(head.substr(8, 2))),
              .packed = little(head.substr(18, 4))};
  if (*entry.packed == kInZip64) {
    const bool unpacked_too = little(head.substr(22, 4)) == kInZip64;
    entry.packed = zip64_packed_size(std::string_view(rest).substr(name_bytes), unpacked_too);
  }
  if ((entry.flags & kSizesFollow) != 0 && *entry.packed == 0) entry.packed.reset();
  return std::optional(std::move(entry));
}

// What raw deflate data in an archive unfolds to. Takes not a byte more than belongs to it.
class Inflated : public ByteSource {
 public:
  Inflated(PeekSource& archive, std::optional<uint64_t> packed)
      : archive_(archive), packed_(packed) {
    ready_ = inflateInit2(&stream_, -15) == Z_OK;
  }
  ~Inflated() override {
    if (ready_) inflateEnd(&stream_);
  }
  Inflated(const Inflated&) = delete;
  Inflated& operator=(const Inflated&) = delete;

  Result<size_t> read(char* out, size_t capacity) override {
    if (!ready_) return Error{"no memory to decompress"};
    while (!ended_) {
      const uint64_t left = packed_ ? *packed_ - taken_ : kChunk;
      const std::string_view in =
          archive_.peek(static_cast<size_t>(std::min<uint64_t>(kChunk, left)));
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
      stream_.avail_in = static_cast<uInt>(in.size());
      stream_.next_out = reinterpret_cast<Bytef*>(out);
      stream_.avail_out = static_cast<uInt>(std::min<size_t>(capacity, 1u << 30));
      const uInt room = stream_.avail_out;
      const int rc = inflate(&stream_, Z_NO_FLUSH);
      const size_t used = in.size() - stream_.avail_in;
      const size_t made = room - stream_.avail_out;
      TRY_STATUS(skip(used));
      made_ += made;
      if (rc == Z_STREAM_END) {
        ended_ = true;
      } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        return Error{fmt::format("the zip data is damaged ({})", stream_.msg ? stream_.msg : "?")};
      } else if (used == 0 && made == 0) {
        return Error{"the zip data ends in the middle"};
      }
      TRY_STATUS(check_expansion(taken_, made_));
      if (made > 0) return made;
    }
    return size_t{0};
  }

  uint64_t taken() const { return taken_; }

 private:
  Status skip(size_t bytes) {
    Part part(archive_, bytes);
    TRY_STATUS(pass_over(part));
    taken_ += bytes;
    return {};
  }

  PeekSource& archive_;
  std::optional<uint64_t> packed_;
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
  uint64_t taken_ = 0;
  uint64_t made_ = 0;
};

// Behind data whose size was not told before: a checksum and both sizes, of 4 or 8 bytes, with or
// without a mark before them. The next header follows.
Status skip_descriptor(PeekSource& archive, uint64_t packed) {
  const std::string_view next = archive.peek(kDescriptor.size() + 20 + 2);
  for (const size_t mark : {kDescriptor.size(), size_t{0}}) {
    if (mark > 0 && !next.starts_with(kDescriptor)) continue;
    for (const size_t width : {size_t{4}, size_t{8}}) {
      const size_t size = mark + 4 + 2 * width;
      const uint64_t wanted = width == 4 ? packed & 0xffffffff : packed;
      if (next.size() < size || little(next.substr(mark + 4, width)) != wanted) continue;
      if (!next.substr(size).starts_with("PK")) continue;
      Part descriptor(archive, size);
      return pass_over(descriptor);
    }
  }
  return Error{"the archive is damaged: the sizes behind a file do not fit"};
}

Status read_deflated(PeekSource& archive, const Entry& entry, const ZipVisitor& visitor) {
  Inflated content(archive, entry.packed);
  visitor.each(entry.name, content);
  const Status rest = pass_over(content);
  if (!entry.packed) {
    TRY_STATUS(rest);
    return skip_descriptor(archive, content.taken());
  }
  Part behind(archive, *entry.packed - content.taken());  // of damaged data; who read it was told
  TRY_STATUS(pass_over(behind));
  return (entry.flags & kSizesFollow) == 0 ? Status() : skip_descriptor(archive, *entry.packed);
}

// Data that is passed on, or passed over, as it lies there.
Status read_whole(PeekSource& archive, const Entry& entry, const ZipVisitor& visitor) {
  const bool encrypted = (entry.flags & kEncrypted) != 0;
  const bool known = entry.method == kStored || entry.method == kZstd;
  if (encrypted) {
    visitor.left_out(entry.name, "it is encrypted; decrypt it and give it again");
  } else if (!known) {
    visitor.left_out(entry.name, fmt::format("it is packed by method {}, which is not known here",
                                             entry.method));
  }
  if (!entry.packed) {
    return Error{
        fmt::format("{} has no size before its data: what follows it cannot be found; "
                    "unpack the archive and give the directory",
                    entry.name)};
  }
  Part content(archive, *entry.packed);
  if (!encrypted && entry.method == kStored) visitor.each(entry.name, content);
  if (!encrypted && entry.method == kZstd) {
    const auto unpacked = decompress(Compression::kZstd, std::make_unique<Borrowed>(content));
    visitor.each(entry.name, *unpacked);
  }
  TRY_STATUS(pass_over(content));
  if ((entry.flags & kSizesFollow) == 0) return {};
  return skip_descriptor(archive, *entry.packed);
}

}  // namespace

bool is_zip(std::string_view head) {
  if (head.starts_with(kEmptyArchive)) return true;
  if (!head.starts_with(kLocalHeader) || head.size() < kHeaderBytes) return false;
  const std::string_view name =
      head.substr(kHeaderBytes, static_cast<size_t>(little(head.substr(26, 2))));
  const bool checkpoint = name.ends_with("/data.pkl") || name.ends_with("/.format_version") ||
                          name.ends_with("/byteorder") || name.ends_with(".npy");
  const bool program = name.starts_with("META-INF") || name.ends_with(".py") ||
                       name.ends_with(".class") || name == "[Content_Types].xml" ||
                       name == "mimetype";
  return !checkpoint && !program;
}

Status read_zip(PeekSource& archive, const ZipVisitor& visitor) {
  for (uint64_t files = 0; files < kMaxZipFiles; ++files) {
    const auto entry = TRY(read_header(archive));
    if (!entry) return {};
    const bool inflate = entry->method == kDeflated && (entry->flags & kEncrypted) == 0;
    if (entry->name.ends_with('/') && entry->packed == 0u) continue;
    TRY_STATUS(inflate ? read_deflated(archive, *entry, visitor)
                       : read_whole(archive, *entry, visitor));
  }
  return Error{"the archive holds too many files"};
}

}  // namespace shanty
