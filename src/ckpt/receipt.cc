#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ckpt/manifest_json.h"
#include "ckpt/store.h"
#include "text/json_fields.h"

namespace shanty::ckpt {

std::string encode_receipt(const Receipt& receipt) {
  return fmt::format(R"({{"rank":{},{}}})", receipt.rank,
                     encode_parts(receipt.files, receipt.tensors, receipt.aliases));
}

Result<Receipt> decode_receipt(std::string_view text) {
  const std::string what = "reading the receipt of a rank";
  const auto parsed = parse_json(text, kMaxManifestNesting);
  if (!parsed || !parsed->is_object()) return Error{what + ": not a JSON object"};
  Receipt receipt;
  receipt.rank = json_int(*parsed, "rank", -1);
  if (receipt.rank < 0 || receipt.rank >= kMaxRanks) return Error{what + ": no rank in it"};
  StoredParts parts = TRY(decode_parts(*parsed, receipt.rank + 1).context(what));
  for (const StoredFile& file : parts.files) {
    if (file.rank != receipt.rank) return Error{what + ": it has a file of another rank"};
  }
  receipt.files = std::move(parts.files);
  receipt.tensors = std::move(parts.tensors);
  receipt.aliases = std::move(parts.aliases);
  return receipt;
}

}  // namespace shanty::ckpt
