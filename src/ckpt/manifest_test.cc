#include "ckpt/manifest.h"

#include <ctime>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/base64.h"
#include "ckpt/store.h"
#include "ckpt/xxh3.h"

namespace shanty::ckpt {
namespace {

using testing::HasSubstr;

Manifest sample() {
  Manifest manifest{.id = {.step = 1200, .generation = 7, .attempt = 2},
                    .run = "run-1",
                    .world_size = 2,
                    .created_unix_ns = 1'795'975'445'123'456'789,
                    .global_json = R"({"epoch":3,"extra":{"a":[1,2.5,"x\ny"]}})"};
  const std::string digest(32, 'a');
  manifest.files = {{"model/a", 0, kChunkBytes + 5, {1, 0xfffffffe}, digest},
                    {"model/b", 1, 64, {7}, digest},
                    {"state/rank-00000.json", 0, 0, {}, digest}};
  manifest.tensors["w"] = {
      "F32", 4, {4, 4}, Group::kModel, {{0, 4096, {{0, 0}, {2, 4}}}, {1, 0, {{2, 0}, {2, 4}}}}};
  manifest.tensors["s \"q\""] = {"NF", 3, {}, Group::kOptim, {{1, 32, {{}, {}}}}};
  manifest.tensors["none"] = {"F32", 4, {0, 4}, Group::kOptim, {}};
  manifest.aliases["tied"] = "w";
  return manifest;
}

// The body of `manifest` with `from` replaced, under a first line that fits it.
std::string with_body(const Manifest& manifest, const std::string& from, const std::string& to) {
  std::string text = encode_manifest(manifest);
  const ManifestSummary summary = decode_summary(text).value();
  std::string head = text.substr(0, summary.head_bytes);
  std::string body = text.substr(summary.head_bytes, summary.body_bytes);
  const size_t at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  body.replace(at, from.size(), to);
  const auto set = [&head](const std::string& key, const std::string& old, const std::string& now) {
    const size_t place = head.find("\"" + key + "\":" + old);
    head.replace(place + key.size() + 3, old.size(), now);
  };
  set("body_bytes", std::to_string(summary.body_bytes), std::to_string(body.size()));
  set("body_sha256", "\"" + summary.body_sha256 + "\"", "\"" + hex(sha256(body)) + "\"");
  head.resize(head.find(",\"crc\""));
  return fmt::format("{},\"crc\":\"{:08x}\"}}\n{}\n", head, crc32c(head), body);
}

std::string refusal(const std::string& from, const std::string& to) {
  const auto manifest = decode_manifest(with_body(sample(), from, to));
  return manifest.ok() ? "" : manifest.error().message;
}

TEST(Manifest, ComesBackAsItWasWritten) {
  const std::string text = encode_manifest(sample());
  const auto back = decode_manifest(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(encode_manifest(*back), text);
  EXPECT_EQ(back->id, sample().id);
  EXPECT_EQ(back->files[0].crc32c, (std::vector<uint32_t>{1, 0xfffffffe}));
  EXPECT_EQ(back->tensors.at("w").pieces[1].box, (Box{{2, 0}, {2, 4}}));
  EXPECT_EQ(back->tensors.at("s \"q\"").element_bytes, 3U);
  EXPECT_EQ(back->global_json, sample().global_json);
}

TEST(Manifest, TheFirstLineAloneTellsTheSummary) {
  const std::string text = encode_manifest(sample());
  const auto summary = decode_summary(text.substr(0, text.find('\n') + 1));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->id.step, 1200U);
  EXPECT_EQ(summary->tensors, 3U);
  EXPECT_EQ(summary->bytes, kChunkBytes + 5 + 64);
  EXPECT_EQ(summary->created_unix_ns, sample().created_unix_ns);
  Manifest longest = sample();
  longest.run = std::string(100'000, '\x01');
  EXPECT_TRUE(decode_summary(encode_manifest(longest)).ok());
}

TEST(Manifest, TheFirstLineRepeatsTheMetrics) {
  Manifest manifest = sample();
  manifest.global_json = R"({"metrics":{"loss":0.25,"eval/acc":3,"x y":1,"no":null},)"
                         R"("keep_best":{"metric":"loss","mode":"max","count":2}})";
  const Score score = decode_summary(encode_manifest(manifest)).value().score;
  EXPECT_EQ(score.metrics, (std::map<std::string, double>{{"loss", 0.25}, {"eval/acc", 3}}));
  ASSERT_TRUE(score.best);
  EXPECT_EQ(score.best->metric, "loss");
  EXPECT_TRUE(score.best->highest);
  EXPECT_EQ(score.best->keep, 2U);
  EXPECT_FALSE(decode_summary(encode_manifest(sample())).value().score.best);
}

TEST(Manifest, TheFirstLineStaysShortWithAllMetrics) {
  Manifest manifest = sample();
  manifest.run = std::string(100'000, '\x01');
  std::string metrics;
  for (size_t i = 0; i < 2 * kMaxMetrics; ++i) {
    metrics += fmt::format(R"({}"{:0>{}}":-2.2250738585072014e-308)", i == 0 ? "" : ",", i,
                           kMaxMetricNameBytes);
  }
  const std::string longest(kMaxMetricNameBytes, 'm');
  manifest.global_json =
      fmt::format(R"({{"metrics":{{{}}},"keep_best":{{"metric":"{}","mode":"min","count":9}}}})",
                  metrics, longest);
  const auto summary = decode_summary(encode_manifest(manifest));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->score.metrics.size(), kMaxMetrics);
  EXPECT_EQ(summary->score.best->metric, longest);
}

TEST(Manifest, AnyFlippedBitAndAnyCutIsNoticed) {
  const std::string text = encode_manifest(sample());
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode_manifest(bad).ok()) << bit;
  }
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(decode_manifest(text.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(decode_manifest(text + "\n").ok());
}

TEST(Manifest, RefusesHostileContentUnderRightChecksums) {
  EXPECT_EQ(refusal("\"aliases\"", "\"new\":[1],\"aliases\""), "");
  EXPECT_THAT(refusal("model/a", "../a"), HasSubstr("path"));
  EXPECT_THAT(refusal("model/a", "/etc/a"), HasSubstr("path"));
  EXPECT_THAT(refusal("model/a", "a/./b"), HasSubstr("path"));
  EXPECT_THAT(refusal("model/a", "a//b"), HasSubstr("path"));
  EXPECT_THAT(refusal("model/a", "MANIFEST.json"), HasSubstr("path"));
  EXPECT_THAT(refusal("model/b", "model/a"), HasSubstr("twice"));
  EXPECT_THAT(refusal("\"rank\":1", "\"rank\":2"), HasSubstr("rank"));
  EXPECT_THAT(refusal("\"bytes\":64", "\"bytes\":-64"), HasSubstr("size"));
  EXPECT_THAT(refusal("\"bytes\":64", "\"bytes\":18446744073709551615"), HasSubstr("size"));
  EXPECT_THAT(refusal("\"bytes\":64", "\"bytes\":9223372036854775807"), HasSubstr("crc32c"));
  EXPECT_THAT(refusal("\"bytes\":64", "\"bytes\":65"), HasSubstr("totals"));
  EXPECT_THAT(refusal("\"shape\":[4,4]", "\"shape\":[4,4.0]"), HasSubstr("number"));
  EXPECT_THAT(refusal("\"shape\":[4,4]", "\"shape\":[4294967296,4294967296]"),
              HasSubstr("63 bits"));
  EXPECT_THAT(refusal("\"shape\":[4,4]", "\"shape\":[5,4]"), HasSubstr("first at [4, 0]"));
  EXPECT_THAT(refusal("[1,0,[2,0],[2,4]]", "[1,0,[1,0],[2,4]]"), HasSubstr("overlap"));
  EXPECT_THAT(refusal("[1,0,[2,0],[2,4]]", "[9,0,[2,0],[2,4]]"), HasSubstr("no file"));
  EXPECT_THAT(refusal("[1,0,[2,0],[2,4]]", "[1,33,[2,0],[2,4]]"), HasSubstr("beyond the end"));
  EXPECT_THAT(refusal("[1,0,[2,0],[2,4]]", "[1,18446744073709551615,[2,0],[2,4]]"),
              HasSubstr("beyond the end"));
  EXPECT_THAT(refusal("[1,0,[2,0],[2,4]]", "[1,0,[2],[2]]"), HasSubstr("other dimensions"));
  EXPECT_THAT(refusal("\"tied\":\"w\"", "\"tied\":\"v\""), HasSubstr("alias"));
  EXPECT_THAT(refusal("\"tied\":\"w\"", "\"w\":\"w\""), HasSubstr("alias"));
  EXPECT_THAT(refusal("\"element_bytes\":3", "\"element_bytes\":0"), HasSubstr("element_bytes"));
  EXPECT_THAT(refusal("\"group\":\"model\"", "\"group\":\"other\""), HasSubstr("group"));
  const std::string deep = std::string(70, '[') + std::string(70, ']');
  EXPECT_THAT(refusal("\"epoch\":3", "\"epoch\":" + deep), HasSubstr("no JSON"));
}

TEST(Manifest, NamesHaveOneSpelling) {
  const CheckpointId id{.step = 1200, .generation = 7, .attempt = 1};
  EXPECT_EQ(visible_name(id), "step-000001200.g0007.a01");
  EXPECT_EQ(parse_checkpoint_name("step-000001200.g0007.a01"), id);
  EXPECT_EQ(parse_checkpoint_name(in_progress_name(id)), id);
  const CheckpointId big{.step = 123'456'789'012, .generation = 12345, .attempt = 123};
  EXPECT_EQ(parse_checkpoint_name(visible_name(big)), big);
  for (const char* name :
       {"step-1200.g0007.a01", "step-000001200.g0007.a01x", "step-0000001200.g0007.a01",
        "step-000001200.g0007", "step--00001200.g0007.a01", "latest", "", ".trash",
        "step-99999999999999999999.g0007.a01", "x-step-000001200.g0007.a01"}) {
    EXPECT_FALSE(parse_checkpoint_name(name).has_value()) << name;
  }
}

Manifest with_boxes(std::vector<uint64_t> shape, const std::vector<Box>& boxes) {
  Manifest manifest;
  StoredTensor& tensor = manifest.tensors["t"];
  tensor = {.dtype = "F32", .element_bytes = 4, .shape = std::move(shape)};
  for (const Box& box : boxes) tensor.pieces.push_back({.file = 0, .at = 0, .box = box});
  return manifest;
}

std::string coverage(std::vector<uint64_t> shape, const std::vector<Box>& boxes) {
  const Status status = check_coverage(with_boxes(std::move(shape), boxes));
  return status.ok() ? "" : status.error().message;
}

TEST(Coverage, SaysWhatIsMissingAndWhatIsThereTwice) {
  EXPECT_EQ(coverage({}, {{{}, {}}}), "");
  EXPECT_THAT(coverage({}, {}), HasSubstr("1 of 1 elements are in no piece, the first at []"));
  EXPECT_THAT(coverage({}, {{{}, {}}, {{}, {}}}), HasSubstr("overlap"));
  EXPECT_EQ(coverage({0, 3}, {}), "");
  EXPECT_THAT(coverage({0, 3}, {{{0, 0}, {0, 3}}}), HasSubstr("empty"));
  EXPECT_THAT(coverage({4}, {{{0}, {1}}, {{3}, {1}}}), HasSubstr("first at [1]"));
  EXPECT_THAT(coverage({4}, {{{0}, {3}}, {{2}, {2}}}), HasSubstr("[0] and [2] overlap"));
  EXPECT_THAT(coverage({4}, {{{0}, {2}}, {{2}, {3}}}), HasSubstr("reaches out"));
  // A pinwheel: no plane divides it.
  const std::vector<Box> wheel = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_EQ(coverage({3, 3}, wheel), "");
  EXPECT_THAT(coverage({3, 3}, {wheel.begin(), wheel.end() - 1}), HasSubstr("first at [1, 1]"));
}

TEST(Coverage, AgreesWithCountingElements) {
  Rng rng(5);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<uint64_t> shape = {1 + rng.below(4), 1 + rng.below(4), 1 + rng.below(3)};
    // Random cuts, then perhaps one change.
    std::vector<Box> boxes = {{{0, 0, 0}, shape}};
    for (int cut = 0; cut < 6; ++cut) {
      Box& box = boxes[rng.below(boxes.size())];
      const size_t dim = rng.below(3);
      if (box.shape[dim] < 2) continue;
      Box rest = box;
      const uint64_t at = 1 + rng.below(box.shape[dim] - 1);
      box.shape[dim] = at;
      rest.offsets[dim] += at;
      rest.shape[dim] -= at;
      boxes.push_back(rest);
    }
    if (rng.chance(0.5)) {
      Box& box = boxes[rng.below(boxes.size())];
      const size_t dim = rng.below(3);
      const uint64_t kind = rng.below(3);
      if (kind == 0 && box.shape[dim] > 1) --box.shape[dim];
      if (kind == 1 && box.offsets[dim] > 0) --box.offsets[dim];
      if (kind == 2) boxes.push_back(Box(box));
    }
    std::vector<int> count(shape[0] * shape[1] * shape[2]);
    for (const Box& box : boxes) {
      for (uint64_t x = 0; x < box.shape[0]; ++x) {
        for (uint64_t y = 0; y < box.shape[1]; ++y) {
          for (uint64_t z = 0; z < box.shape[2]; ++z) {
            ++count[((box.offsets[0] + x) * shape[1] + box.offsets[1] + y) * shape[2] +
                    box.offsets[2] + z];
          }
        }
      }
    }
    const bool exact = std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
    const std::string said = coverage(shape, boxes);
    ASSERT_EQ(said.empty(), exact) << "round " << round << ": " << said;
    const auto gap = std::find(count.begin(), count.end(), 0) - count.begin();
    if (said.find("in no piece") != std::string::npos) {
      const auto plane = static_cast<int64_t>(shape[1] * shape[2]);
      ASSERT_THAT(said, HasSubstr(fmt::format("first at [{}, {}, {}]", gap / plane,
                                              gap % plane / static_cast<int64_t>(shape[2]),
                                              gap % static_cast<int64_t>(shape[2]))));
    }
  }
}

TEST(Coverage, IsQuickForAHundredThousandPieces) {
  const std::clock_t start = std::clock();
  std::vector<Box> rows;
  std::vector<Box> columns;
  std::vector<Box> grid;
  for (uint64_t i = 0; i < 100'000; ++i) {
    rows.push_back({{i * 3, 0}, {3, 8}});
    columns.push_back({{0, i * 3}, {8, 3}});
    grid.push_back({{i / 316 * 2, i % 316 * 5}, {2, 5}});
  }
  grid.resize(316 * 316);
  EXPECT_EQ(coverage({300'000, 8}, rows), "");
  EXPECT_EQ(coverage({8, 300'000}, columns), "");
  EXPECT_EQ(coverage({632, 1580}, grid), "");
  const double took_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(took_s, 5.0);
}

TEST(Receipt, ComesBackAndRefusesFilesOfOthers) {
  const Manifest manifest = sample();
  Receipt receipt{.rank = 1, .tensors = {}, .aliases = manifest.aliases};
  receipt.files = {manifest.files[1]};
  receipt.tensors["s"] = {"F32", 4, {2}, Group::kOptim, {{0, 32, {{0}, {2}}}}};
  const std::string text = encode_receipt(receipt);
  const auto back = decode_receipt(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(encode_receipt(*back), text);
  receipt.rank = 2;
  EXPECT_FALSE(decode_receipt(encode_receipt(receipt)).ok());
  EXPECT_FALSE(decode_receipt("{}").ok());
  EXPECT_FALSE(decode_receipt(R"({"rank":-1,"files":[],"tensors":{}})").ok());
  EXPECT_FALSE(decode_receipt(text.substr(1)).ok());
}

TEST(Base64, ComesBackAndRefusesOtherSpellings) {
  EXPECT_EQ(encode_base64("fooba"), "Zm9vYmE=");
  for (size_t size = 0; size < 40; ++size) {
    const std::string bytes = secure_random_bytes(size);
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
  for (const char* text : {"Zg", "Zg=", "Zh==", "Z===", "====", "Zg==Zg==", "Zm9 "}) {
    EXPECT_FALSE(decode_base64(text).has_value()) << text;
  }
}

TEST(Xxh3, IsThatOfTheLibraryWhetherInPartsOrNot) {
  EXPECT_EQ(xxh3_hex(""), "99aa06d3014798d86001c324468d497f");
  Xxh3 parts;
  parts.add("ab");
  parts.add("c");
  EXPECT_EQ(parts.hex_digest(), xxh3_hex("abc"));
  const std::string bytes = secure_random_bytes(100'000);
  Xxh3 more;
  for (size_t at = 0, size = 1; at < bytes.size(); at += size, size = size * 3 + 1) {
    more.add(std::string_view(bytes).substr(at, size));
    EXPECT_EQ(more.hex_digest(), xxh3_hex(std::string_view(bytes).substr(0, at + size)));
  }
}

}  // namespace
}  // namespace shanty::ckpt
