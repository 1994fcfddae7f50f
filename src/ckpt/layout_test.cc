#include "ckpt/layout.h"

#include <cstring>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "ckpt/test_saves.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;
using testing::HasSubstr;

PieceSpec whole(const std::string& name, const std::string& dtype, uint64_t element_bytes,
                std::vector<uint64_t> shape) {
  std::vector<uint64_t> zeros(shape.size(), 0);
  return {.name = name,
          .dtype = dtype,
          .element_bytes = element_bytes,
          .shape = shape,
          .boxes = {{zeros, shape}}};
}

// The header of a shard as a reader of safetensors checks it: length, first byte, JSON, entries
// without gaps or overlaps to the end of the file, sizes that fit shape and type.
json parse_as_safetensors(const FileImage& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.header.data(), sizeof(length));
  EXPECT_EQ(file.header.size(), length + 8);
  EXPECT_EQ(file.header.size() % kDataAlignment, 0U);
  EXPECT_EQ(file.header[8], '{');
  const auto header = parse_json(std::string_view(file.header).substr(8));
  EXPECT_TRUE(header.has_value());
  std::map<uint64_t, uint64_t> ranges;
  for (const auto& [key, value] : header->items()) {
    if (key == "__metadata__") {
      for (const auto& [name, text] : value.items()) EXPECT_TRUE(text.is_string()) << name;
      continue;
    }
    const uint64_t begin = value["data_offsets"][0].get<uint64_t>();
    const uint64_t end = value["data_offsets"][1].get<uint64_t>();
    const auto shape = value["shape"].get<std::vector<uint64_t>>();
    const auto bytes = dtype_bytes(value["dtype"].get<std::string>());
    EXPECT_TRUE(bytes.has_value()) << key;
    EXPECT_EQ(end - begin, element_count(shape).value() * *bytes) << key;
    EXPECT_TRUE(ranges.emplace(begin, end).second) << key;
  }
  uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, at);
    at = end;
  }
  EXPECT_EQ(file.bytes, file.header.size() + at);
  return *header;
}

TEST(Layout, AShardIsSafetensorsThatDcpReads) {
  PieceSpec flat = whole("b.flat", "F32", 4, {3, 4});
  flat.boxes = boxes_of_flat_range(flat.shape, {2, 7});
  const std::vector<PieceSpec> pieces = {whole("a.bool", "BOOL", 1, {3}), flat,
                                         whole("c.odd", "NF4x3", 3, {2, 2}),
                                         whole("d.scalar", "F64", 8, {})};
  const Layout layout = make_layout(pieces, 2).value();
  ASSERT_EQ(layout.files.size(), 1U);
  EXPECT_EQ(layout.files[0].path, "model/shard-00003-model-00001-of-00001.safetensors");
  const json header = parse_as_safetensors(layout.files[0]);
  EXPECT_EQ(header["d.scalar"]["data_offsets"], json::parse("[0,8]"));
  EXPECT_EQ(header["d.scalar"]["shape"], json::array());
  EXPECT_EQ(header["b.flat.__dcp_shard_0"]["data_offsets"], json::parse("[8,16]"));
  EXPECT_EQ(header["b.flat.__dcp_shard_2"]["shape"], json::parse("[1,1]"));
  EXPECT_EQ(header["c.odd"]["dtype"], "U8");
  EXPECT_EQ(header["c.odd"]["shape"], json::parse("[2,2,3]"));
  const json metadata = header["__metadata__"];
  EXPECT_EQ(metadata["format"], "pt");
  EXPECT_EQ(metadata["DCP_VERSION"], "1.0");
  const json info = json::parse(metadata["DCP_SHARDING_INFO"].get<std::string>());
  EXPECT_EQ(info["b.flat.__dcp_shard_1"]["saved_offsets"], json::parse("[1,0]"));
  EXPECT_EQ(info["b.flat.__dcp_shard_1"]["logical_fqn"], "b.flat");
  EXPECT_EQ(info["c.odd"]["saved_offsets"], json::parse("[0,0,0]"));
  EXPECT_EQ(layout.piece_offsets[3], layout.files[0].header.size());
  EXPECT_EQ(layout.slot_bytes % kDataAlignment, 0U);
}

TEST(Layout, GroupsHaveAFileEachAndAGroupWithoutPiecesHasNone) {
  PieceSpec optim = whole("m", "F32", 4, {1000});
  optim.group = Group::kOptim;
  PieceSpec empty = whole("e", "F32", 4, {0, 3});
  const Layout both = make_layout({whole("w", "F32", 4, {2000}), optim, empty}, 0).value();
  ASSERT_EQ(both.files.size(), 2U);
  EXPECT_EQ(both.files[0].slot_offset, 0U);
  EXPECT_EQ(both.files[1].slot_offset, 12288U);
  EXPECT_EQ(both.files[1].path, "optim/shard-00001-model-00001-of-00001.safetensors");
  EXPECT_EQ(both.boxes[2].bytes, 0U);
  EXPECT_TRUE(make_layout({empty}, 0)->files.empty());
  EXPECT_TRUE(make_layout({}, 0)->files.empty());
}

TEST(Layout, WhatIsStillLiesInAFileOfItsOwn) {
  PieceSpec still = whole("frozen", "F32", 4, {1000});
  still.still = true;
  const Layout layout = make_layout({still, whole("w", "F32", 4, {2000})}, 0).value();
  ASSERT_EQ(layout.files.size(), 2U);
  EXPECT_FALSE(layout.files[0].still);
  EXPECT_TRUE(layout.files[1].still);
  EXPECT_EQ(layout.files[1].path, "model/shard-00001-still-00001-of-00001.safetensors");
  EXPECT_TRUE(parse_as_safetensors(layout.files[1]).contains("frozen"));
  EXPECT_EQ(layout.boxes[0].file, 1U);
  EXPECT_EQ(layout.boxes[1].file, 0U);
}

TEST(Layout, EveryTensorLiesAtAMultipleOfItsElement) {
  const std::vector<PieceSpec> pieces = {
      whole("a.byte", "U8", 1, {3}), whole("b.half", "F16", 2, {3}), whole("c.odd", "Q24", 3, {5}),
      whole("d.complex", "C128", 16, {3}), whole("e.double", "F64", 8, {1})};
  const Layout layout = make_layout(pieces, 0).value();
  parse_as_safetensors(layout.files[0]);
  for (const PlacedBox& placed : layout.boxes) {
    const PieceSpec& piece = pieces[placed.piece];
    if (piece.dtype == "Q24") continue;
    EXPECT_EQ(placed.at % piece.element_bytes, 0U) << piece.name;
  }
}

TEST(Layout, RefusesWhatCannotBeStored) {
  const auto message = [](const std::vector<PieceSpec>& pieces) {
    const auto layout = make_layout(pieces, 0);
    return layout.ok() ? "" : layout.error().message;
  };
  const PieceSpec good = whole("w", "F32", 4, {4, 4});
  EXPECT_EQ(message({good}), "");
  EXPECT_THAT(message({good, good}), HasSubstr("twice"));
  PieceSpec bad = good;
  bad.element_bytes = 2;
  EXPECT_THAT(message({bad}), HasSubstr("F32 does not have 2 bytes"));
  bad = good;
  bad.boxes[0].offsets[1] = 1;
  EXPECT_THAT(message({bad}), HasSubstr("reaches out of the tensor's"));
  bad.boxes[0].offsets[1] = UINT64_MAX;
  EXPECT_THAT(message({bad}), HasSubstr("reaches out of the tensor's"));
  EXPECT_THAT(message({whole("w", "F32", 4, {uint64_t{1} << 40, uint64_t{1} << 40})}),
              HasSubstr("63 bits"));
  EXPECT_THAT(message({whole("w", "F32", 4, {uint64_t{1} << 62})}), HasSubstr("63 bits"));
  EXPECT_THAT(message({whole("w", "X", 4, std::vector<uint64_t>(65, 1))}), HasSubstr("dimensions"));
  for (const std::string& name :
       {std::string(), std::string("__metadata__"), std::string("\xff"), std::string(5000, 'n')}) {
    EXPECT_THAT(message({whole(name, "F32", 4, {1})}), HasSubstr("not a name"));
  }
  PieceSpec clash = whole("w.__dcp_shard_0", "F32", 4, {4});
  PieceSpec two = good;
  two.boxes = boxes_of_flat_range(two.shape, {1, 9});
  EXPECT_THAT(message({clash, two}), HasSubstr("two tensors have the key"));
}

TEST(Layout, FlatRangesAreCutIntoFewBoxesInTheirOrder) {
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{}, {7}, {3, 5}, {2, 3, 4}, {3, 1, 4}, {2, 2, 2, 3}}) {
    const uint64_t total = element_count(shape).value();
    for (uint64_t start = 0; start <= total; ++start) {
      for (uint64_t count = 0; count <= total - start + 2; ++count) {
        const std::vector<Box> boxes = boxes_of_flat_range(shape, {start, count});
        EXPECT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size() - (shape.empty() ? 0 : 1)));
        uint64_t next = start;
        for (const Box& box : boxes) {
          for_each_element(box, shape, [&](uint64_t, uint64_t at) { ASSERT_EQ(at, next++); });
        }
        EXPECT_EQ(next, start + std::min(count, total - start));
      }
    }
  }
}

TEST(Layout, CountsElementsWithoutOverflow) {
  EXPECT_EQ(element_count({}).value(), 1U);
  EXPECT_EQ(element_count({3, 0, UINT64_MAX}).value(), 0U);
  EXPECT_EQ(element_count({uint64_t{1} << 31, uint64_t{1} << 31}).value(), uint64_t{1} << 62);
  EXPECT_FALSE(element_count({uint64_t{1} << 32, uint64_t{1} << 31}).ok());
  EXPECT_FALSE(element_count({UINT64_MAX}).ok());
}

}  // namespace
}  // namespace shanty::ckpt
