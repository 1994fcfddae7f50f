#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"
#include "ckpt/manifest.h"
#include "ckpt/store.h"

namespace {

using namespace shanty::ckpt;

// Any bytes are an error or a receipt that stays the same when it is written and read again.
void check_receipt(std::string_view bytes) {
  const auto receipt = decode_receipt(bytes);
  if (!receipt.ok()) return;
  const std::string text = encode_receipt(*receipt);
  const auto again = decode_receipt(text);
  CHECK(again.ok());
  CHECK(encode_receipt(*again) == text);
}

void check_manifest(std::string_view bytes) {
  const auto manifest = decode_manifest(bytes);
  if (!manifest.ok()) return;
  const std::string text = encode_manifest(*manifest);
  const auto again = decode_manifest(text);
  CHECK(again.ok());
  CHECK(encode_manifest(*again) == text);
}

// A valid second line with the bytes after the first two laid over it where those say, so that a
// fuzzer that starts from nothing gets past the outer rules.
std::string laid_over_valid(std::string_view bytes) {
  std::string body =
      R"({"rank":0,"files":[{"path":"model/a","rank":0,"bytes":64,"crc32c":"AQAAAA==",)"
      R"("xxh3":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}],"tensors":{"w":{"dtype":"F32",)"
      R"("shape":[4,2],"group":"model","pieces":[[0,0,[0,0],[2,2]],[0,16,[2,0],[2,2]]]},)"
      R"("q":{"dtype":"NF","element_bytes":3,"shape":[],"group":"optim",)"
      R"("pieces":[[0,32,[],[]]]}},"aliases":{"t":"w"},"global":{"a":[1,2.5,null,"x"]}})";
  if (bytes.size() < 2) return body;
  const size_t at = static_cast<unsigned char>(bytes[0]) + 256U * (bytes[1] & 1);
  bytes.remove_prefix(2);
  body.replace(std::min(at, body.size()), bytes.size(), bytes);
  return body;
}

std::string with_crc(std::string_view head) {
  return fmt::format("{},\"crc\":\"{:08x}\"}}\n", head, shanty::crc32c(head));
}

// Takes the bytes as a second line and puts a first line with right checksums before it.
std::string under_right_checksums(std::string_view body) {
  uint64_t file_bytes = 0;
  uint64_t tensors = 0;
  if (const auto receipt = decode_receipt(body)) {
    for (const StoredFile& file : receipt->files) file_bytes += file.bytes;
    tensors = receipt->tensors.size();
  }
  const std::string head = fmt::format(
      R"({{"attempt":1,"body_bytes":{},"body_sha256":"{}","bytes":{},"created_unix_ns":1,)"
      R"("format":1,"generation":1,"run":"r","step":1,"tensors":{},"world_size":1048576)",
      body.size(), shanty::hex(shanty::sha256(body)), file_bytes, tensors);
  return with_crc(head) + std::string(body) + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_receipt(bytes);
  check_manifest(bytes);
  check_manifest(with_crc(bytes));
  check_manifest(under_right_checksums(bytes));
  const std::string laid_over = laid_over_valid(bytes);
  check_receipt(laid_over);
  check_manifest(under_right_checksums(laid_over));
  const auto id = parse_checkpoint_name(bytes);
  CHECK(!id || visible_name(*id) == bytes || in_progress_name(*id) == bytes);
  return 0;
}
