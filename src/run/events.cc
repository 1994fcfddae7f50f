#include "run/events.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hash.h"
#include "run/believable_time.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr int kEventVersion = 1;
constexpr size_t kReadChunkBytes = 256 * 1024;
constexpr std::string_view kCrcKey = ",\"crc\":\"";
constexpr size_t kCrcDigits = 8;
constexpr size_t kCrcTailBytes = kCrcKey.size() + kCrcDigits + 2;  // ..."}

// Cuts at a character's border.
std::string cut_text(const std::string& text) {
  if (text.size() <= kMaxEventTextBytes) return text;
  size_t end = kMaxEventTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + " [cut]";
}

// The last byte of the file is not a newline: its writer died within a line.
Result<bool> ends_within_line(const std::string& path, uint64_t size_bytes) {
  if (size_bytes == 0) return false;
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error("opening " + path);
  char last = 0;
  if (::pread(fd.get(), &last, 1, static_cast<off_t>(size_bytes - 1)) != 1) {
    return errno_error("reading the end of " + path);
  }
  return last != '\n';
}

}  // namespace

Result<std::string> encode_event(const Event& event) {
  json out;
  out["v"] = kEventVersion;
  out["unix_ns"] = event.unix_ns;
  out["time"] = format_utc(event.unix_ns);
  out["source"] = event.source;
  out["kind"] = event.kind;
  if (event.generation != 0) out["generation"] = event.generation;
  if (event.rank >= 0) out["rank"] = event.rank;
  if (event.node_rank >= 0) out["node_rank"] = event.node_rank;
  if (!event.text.empty()) out["text"] = cut_text(event.text);
  if (!event.extra_json.empty()) {
    auto extra = parse_json(event.extra_json, kMaxEventNesting);
    if (!extra || !extra->is_object()) {
      return Error{"encoding a " + event.kind + " event: its extra is not a JSON object"};
    }
    out["extra"] = std::move(*extra);
  }
  std::string line = print_json(out);
  line.pop_back();
  line += fmt::format("{}{:08x}\"}}", kCrcKey, crc32c(line));
  if (line.size() > kMaxEventLineBytes) {
    return Error{fmt::format("encoding a {} event: {} bytes are more than {}", event.kind,
                             line.size(), kMaxEventLineBytes)};
  }
  return line;
}

std::optional<Event> decode_event(std::string_view line) {
  if (line.size() > kMaxEventLineBytes || line.size() <= kCrcTailBytes) return std::nullopt;
  const std::string_view body = line.substr(0, line.size() - kCrcTailBytes);
  const std::string tail = fmt::format("{}{:08x}\"}}", kCrcKey, crc32c(body));
  if (line.substr(body.size()) != tail) return std::nullopt;
  const auto parsed = parse_json(line, kMaxEventNesting + 1);
  if (!parsed || !parsed->is_object() || json_int(*parsed, "v") != kEventVersion) {
    return std::nullopt;
  }
  Event event;
  event.unix_ns = believable_unix_ns(json_int64(*parsed, "unix_ns"));
  event.source = json_string(*parsed, "source");
  event.kind = json_string(*parsed, "kind");
  event.generation = json_uint64(*parsed, "generation");
  event.rank = json_int(*parsed, "rank", -1);
  event.node_rank = json_int(*parsed, "node_rank", -1);
  event.text = json_string(*parsed, "text");
  if (const json* extra = json_object(*parsed, "extra")) event.extra_json = print_json(*extra);
  return event;
}

Result<EventWriter> EventWriter::open(const std::string& path, std::string source) {
  AppendFile file = TRY(AppendFile::open(path));
  if (TRY(ends_within_line(path, file.size_bytes()))) TRY_STATUS(file.append("\n"));
  return EventWriter(std::move(file), std::move(source));
}

Status EventWriter::append(Event event) {
  if (event.source.empty()) event.source = source_;
  std::string line = TRY(encode_event(event));
  line += '\n';
  return file_.append(line);
}

std::vector<Event> EventReader::poll() {
  std::vector<Event> out;
  Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return out;
  std::string chunk(kReadChunkBytes, '\0');
  while (true) {
    const ssize_t n = ::pread(fd.get(), chunk.data(), chunk.size(), static_cast<off_t>(offset_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    offset_ += static_cast<uint64_t>(n);
    take(std::string_view(chunk).substr(0, static_cast<size_t>(n)), out);
  }
}

void EventReader::take(std::string_view bytes, std::vector<Event>& out) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const bool whole = newline != std::string_view::npos;
    if (!discarding_) pending_ += bytes.substr(0, newline);
    if (pending_.size() > kMaxEventLineBytes) {
      discarding_ = true;
      pending_.clear();
    }
    if (!whole) return;
    bytes.remove_prefix(newline + 1);
    auto event = discarding_ ? std::nullopt : decode_event(pending_);
    if (event) {
      out.push_back(std::move(*event));
    } else {
      ++skipped_lines_;
    }
    pending_.clear();
    discarding_ = false;
  }
}

std::vector<Event> EventFollower::poll() {
  const auto names = list_directory(events_dir_);
  if (!names) return {};
  std::multimap<int64_t, Event> by_time;  // equal times keep the order they came in
  for (const std::string& name : *names) {
    if (!name.ends_with(".jsonl")) continue;
    auto& reader = readers_.try_emplace(name, events_dir_ + "/" + name).first->second;
    for (Event& event : reader.poll()) by_time.emplace(event.unix_ns, std::move(event));
  }
  std::vector<Event> out;
  out.reserve(by_time.size());
  for (auto& [unix_ns, event] : by_time) out.push_back(std::move(event));
  return out;
}

uint64_t EventFollower::skipped_lines() const {
  uint64_t total = 0;
  for (const auto& [name, reader] : readers_) total += reader.skipped_lines();
  return total;
}

int EventFollower::unfinished_lines() const {
  int total = 0;
  for (const auto& [name, reader] : readers_) total += reader.has_unfinished_line() ? 1 : 0;
  return total;
}

}  // namespace shanty
