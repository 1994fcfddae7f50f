#include "ckpt/manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "ckpt/manifest_json.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::string_view kInProgressPrefix = ".inprogress-";
constexpr std::string_view kCrcKey = ",\"crc\":\"";
constexpr size_t kCrcTailBytes = kCrcKey.size() + 8 + 2;  // eight digits and "}
constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxRunBytes = 256;  // so that a first line stays within kMaxSummaryBytes
constexpr size_t kSha256Digits = 64;
constexpr uint64_t kMaxIdNumber = 999'999'999'999;

// A decimal number of at least `width` digits at the front of `text`, taken off it. More digits
// than `width` do not begin with 0, so that each number has one spelling.
std::optional<uint64_t> take_number(std::string_view& text, size_t width) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits < width || (digits > width && text[0] == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || value > kMaxIdNumber) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

uint64_t bytes_of_files(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

json global_of(const Manifest& manifest) {
  const auto global = parse_json(manifest.global_json, kMaxGlobalNesting);
  return global && global->is_object() ? *global : json::object();
}

// Only the bytes that the checksum covers, parsed.
Result<json> parse_summary(std::string_view line) {
  if (line.size() <= kCrcTailBytes) return Error{"its first line is too short"};
  const std::string_view covered = line.substr(0, line.size() - kCrcTailBytes);
  if (line.substr(covered.size()) != fmt::format("{}{:08x}\"}}", kCrcKey, crc32c(covered))) {
    return Error{"the checksum of its first line does not match"};
  }
  auto parsed = parse_json(line, kMaxManifestNesting);
  if (!parsed || !parsed->is_object()) return Error{"its first line is no JSON object"};
  if (json_int(*parsed, "format") != kFormat) {
    return Error{"it is of a format that this shanty does not know"};
  }
  return std::move(*parsed);
}

Status check_totals(const Manifest& manifest, const ManifestSummary& summary) {
  uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) {
    if (file.bytes > std::numeric_limits<int64_t>::max() - bytes) {
      return Error{"its files have more bytes than fit 63 bits"};
    }
    bytes += file.bytes;
  }
  if (bytes != summary.bytes || manifest.tensors.size() != summary.tensors) {
    return Error{"its first line has other totals than the second"};
  }
  for (const auto& [name, target] : manifest.aliases) {
    if (!manifest.tensors.contains(target)) {
      return Error{"alias " + in_quotes(name) + " is one of a tensor that is not there"};
    }
  }
  return {};
}

}  // namespace

std::string visible_name(const CheckpointId& id) {
  return fmt::format("step-{:09}.g{:04}.a{:02}", id.step, id.generation, id.attempt);
}

std::string in_progress_name(const CheckpointId& id) {
  return std::string(kInProgressPrefix) + visible_name(id);
}

bool is_in_progress_name(std::string_view name) { return name.starts_with(kInProgressPrefix); }

std::optional<CheckpointId> parse_checkpoint_name(std::string_view name) {
  take(name, kInProgressPrefix);
  if (!take(name, "step-")) return std::nullopt;
  const auto step = take_number(name, 9);
  if (!step || !take(name, ".g")) return std::nullopt;
  const auto generation = take_number(name, 4);
  if (!generation || !take(name, ".a")) return std::nullopt;
  const auto attempt = take_number(name, 2);
  if (!attempt || !name.empty()) return std::nullopt;
  return CheckpointId{.step = *step, .generation = *generation, .attempt = *attempt};
}

Status check_id(const CheckpointId& id) {
  if (std::max({id.step, id.generation, id.attempt}) > kMaxIdNumber) {
    return Error{fmt::format("step {}, generation {} or attempt {} is more than {}", id.step,
                             id.generation, id.attempt, kMaxIdNumber)};
  }
  return {};
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes || path.back() == '/') return false;
  if (path.find('\0') != std::string_view::npos || find_invalid_utf8(path)) return false;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    // Names with a leading dot are ours for other things, and manifests are no files of themselves.
    if (part.empty() || part.front() == '.' || part.starts_with(kManifestName)) return false;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return true;
}

std::string encode_manifest(const Manifest& manifest) {
  const json global = global_of(manifest);
  const std::string body = "{" + encode_parts(manifest.files, manifest.tensors, manifest.aliases) +
                           ",\"global\":" + print_json(global) + "}";
  json head;
  head["format"] = kFormat;
  head["step"] = manifest.id.step;
  head["generation"] = manifest.id.generation;
  head["attempt"] = manifest.id.attempt;
  head["run"] = manifest.run.substr(0, kMaxRunBytes);
  head["world_size"] = manifest.world_size;
  head["created_unix_ns"] = manifest.created_unix_ns;
  if (manifest.number != 0) head["number"] = manifest.number;
  head["bytes"] = bytes_of_files(manifest);
  head["tensors"] = manifest.tensors.size();
  head["body_bytes"] = body.size();
  head["body_sha256"] = hex(sha256(body));
  write_score(read_score(global), head);
  std::string line = print_json(head);
  line.pop_back();
  line += fmt::format("{}{:08x}\"}}", kCrcKey, crc32c(line));
  return line + "\n" + body + "\n";
}

Result<ManifestSummary> decode_summary(std::string_view text) {
  const size_t newline = text.substr(0, kMaxSummaryBytes).find('\n');
  if (newline == std::string_view::npos) return Error{"its first line does not end"};
  const json head = TRY(parse_summary(text.substr(0, newline)));
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  ManifestSummary summary;
  summary.id = {.step = json_uint64(head, "step", kNone),
                .generation = json_uint64(head, "generation", kNone),
                .attempt = json_uint64(head, "attempt", kNone)};
  TRY_STATUS(check_id(summary.id));
  summary.run = json_string(head, "run");
  summary.world_size = json_int(head, "world_size");
  if (summary.world_size < 1 || summary.world_size > kMaxRanks) {
    return Error{"its world_size is not believable"};
  }
  summary.created_unix_ns = json_int64(head, "created_unix_ns");
  summary.number = json_uint64(head, "number");
  summary.bytes = json_uint64(head, "bytes", kNone);
  summary.tensors = json_uint64(head, "tensors", kNone);
  summary.body_bytes = json_uint64(head, "body_bytes", kNone);
  if (summary.body_bytes > kMaxManifestBytes) return Error{"its body_bytes is not believable"};
  summary.body_sha256 = json_string(head, "body_sha256");
  if (summary.body_sha256.size() != kSha256Digits) return Error{"its body_sha256 is none"};
  summary.head_bytes = newline + 1;
  summary.score = read_score(head);
  return summary;
}

Result<Manifest> decode_manifest(std::string_view text) {
  const ManifestSummary summary = TRY(decode_summary(text));
  text.remove_prefix(summary.head_bytes);
  if (text.size() != summary.body_bytes + 1 || text.back() != '\n') {
    return Error{fmt::format("its second line has {} bytes and not {}", text.size(),
                             summary.body_bytes + 1)};
  }
  text.remove_suffix(1);
  if (hex(sha256(text)) != summary.body_sha256) {
    return Error{"the checksum of its second line does not match"};
  }
  const auto body = parse_json(text, kMaxManifestNesting);
  if (!body || !body->is_object()) return Error{"its second line is no JSON object"};
  StoredParts parts = TRY(decode_parts(*body, summary.world_size));
  Manifest manifest{.id = summary.id,
                    .run = summary.run,
                    .world_size = summary.world_size,
                    .created_unix_ns = summary.created_unix_ns,
                    .number = summary.number,
                    .files = std::move(parts.files),
                    .tensors = std::move(parts.tensors),
                    .aliases = std::move(parts.aliases)};
  if (const json* global = json_object(*body, "global")) manifest.global_json = print_json(*global);
  TRY_STATUS(check_totals(manifest, summary));
  TRY_STATUS(check_coverage(manifest));
  return manifest;
}

}  // namespace shanty::ckpt
