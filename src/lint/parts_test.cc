// The small parts: quantities, places, edits, kinds of text, comments that ignore, NCCL variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lint/ignore.h"
#include "lint/kind.h"
#include "lint/manifest/quantity.h"
#include "lint/nccl_variables.h"
#include "lint/secret_words.h"
#include "lint/text_places.h"
#include "lint/yaml_edits.h"

namespace shanty::lint {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(Quantity, IsReadAsKubernetesDoes) {
  EXPECT_THAT(parse_quantity("500m"), Optional(0.5));
  EXPECT_THAT(parse_quantity("1.5"), Optional(1.5));
  EXPECT_THAT(parse_quantity("16Gi"), Optional(16.0 * (1u << 30)));
  EXPECT_THAT(parse_quantity("2e3"), Optional(2000.0));
  for (const char* text : {"", "x", "-1", "1 Gi", "1GiB", "nan", "inf"})
    EXPECT_EQ(parse_quantity(text), std::nullopt) << text;
}

TEST(Quantity, ResourcesAreTold) {
  EXPECT_TRUE(is_extended_resource("rdma/hca"));
  EXPECT_FALSE(is_extended_resource("hugepages-2Mi"));
  EXPECT_FALSE(is_extended_resource("attachable.kubernetes.io/x"));
  EXPECT_TRUE(is_gpu_resource("nvidia.com/mig-1g.5gb"));
  EXPECT_TRUE(is_gpu_resource("amd.com/gpu"));
  EXPECT_FALSE(is_gpu_resource("vpc.amazonaws.com/efa"));
  EXPECT_TRUE(is_rdma_resource("nvidia.com/mlnxnics"));
  EXPECT_FALSE(is_rdma_resource("vpc.amazonaws.com/efa"));
}

TEST(TextPlaces, CountCharactersAndFindBytes) {
  const TextPlaces places(
      "\xef\xbb\xbf"
      "a\xc3\xa4z\r\nb\n");
  EXPECT_THAT(places.offset({1, 3}), Optional(6u));
  EXPECT_EQ(places.place(6), (Place{1, 3}));
  EXPECT_EQ(places.line(1), "a\xc3\xa4z");
  EXPECT_THAT(places.offset({2, 2}), Optional(10u));
  EXPECT_EQ(places.offset({2, 4}), std::nullopt);
  EXPECT_EQ(places.offset({9, 1}), std::nullopt);
  EXPECT_EQ(places.line(9), "");
}

YamlNode tree(std::string_view text) {
  return std::move(parse_documents(text, "t.yaml").documents.at(0));
}

TEST(TextPlaces, PlacesInLiteralBlocksAreExact) {
  const std::string text = "a:\n  b: |\n    one\n      two x\n";
  const YamlNode root = tree(text);
  const YamlNode& scalar = *root.find("a")->find("b");
  const TextPlaces places(text);
  EXPECT_EQ(place_within(places, scalar, scalar.text.find('x')), (Place{4, 11}));
  const auto block = literal_block(places, scalar);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->line, 3);
  EXPECT_EQ(block->indent, 4);
}

std::string with(std::string text, const std::optional<Edit>& edit) {
  if (!edit) return "no edit";
  return text.replace(edit->begin, edit->end - edit->begin, edit->text);
}

TEST(YamlEdits, KeepTheLayout) {
  const std::string block = "a:\n  - b: 'x'\n    c: 2\n";
  const YamlNode root = tree(block);
  const YamlNode& list = *root.find("a");
  const YamlNode& item = list.items[0];
  const TextPlaces places(block);
  EXPECT_EQ(with(block, replace_scalar(places, item.items[0], "y")), "a:\n  - b: y\n    c: 2\n");
  EXPECT_EQ(with(block, insert_before(places, item.keys[0], "n:\n  m: 1")),
            "a:\n  - n:\n      m: 1\n    b: 'x'\n    c: 2\n");
  EXPECT_EQ(with(block, insert_item(places, list, "d: 1\ne: 2")),
            "a:\n  - d: 1\n    e: 2\n  - b: 'x'\n    c: 2\n");
  EXPECT_EQ(with(block, replace_key(places, item.keys[1], "d")), "a:\n  - b: 'x'\n    d: 2\n");
}

TEST(YamlEdits, CommentsStayWithWhatTheyAreAbout) {
  const std::string text =
      "a:\n  b: 1\n  # of c\n  # shanty: ignore SHM001 c\n  c: 2\nd:\n  # of e\n  - e: 1\n";
  const TextPlaces places(text);
  const YamlNode root = tree(text);
  EXPECT_EQ(with(text, insert_before(places, root.items[0].keys[1], "n: 0")),
            "a:\n  b: 1\n  n: 0\n  # of c\n  # shanty: ignore SHM001 c\n  c: 2\nd:\n  # of e\n"
            "  - e: 1\n");
  EXPECT_EQ(with(text, insert_item(places, root.items[1], "n: 0")),
            "a:\n  b: 1\n  # of c\n  # shanty: ignore SHM001 c\n  c: 2\nd:\n  - n: 0\n  # of e\n"
            "  - e: 1\n");
}

TEST(YamlEdits, FlowMappingsGetOneLine) {
  const std::string flow = "a: {b: 1, c: 2}\n";
  const YamlNode root = tree(flow);
  const TextPlaces places(flow);
  const YamlNode& map = *root.find("a");
  EXPECT_EQ(with(flow, insert_before(places, map.keys[1], "n: 0")), "a: {b: 1, n: 0, c: 2}\n");
  EXPECT_EQ(insert_before(places, map.keys[0], "n:\n  m: 1"), std::nullopt);
}

TEST(YamlEdits, JsonIsLeftAlone) {
  const std::string json = "{\n  \"a\": 1\n}\n";
  const YamlNode root = tree(json);
  EXPECT_EQ(insert_before(TextPlaces(json), root.keys[0], "n: 0"), std::nullopt);
}

TEST(Kind, IsToldByNameAndContent) {
  EXPECT_EQ(kind_of("a/Dockerfile.gpu", ""), SourceKind::kDockerfile);
  EXPECT_EQ(kind_of("x.yaml", "apiVersion: v1\nkind: Pod\n"), SourceKind::kManifest);
  EXPECT_EQ(kind_of("x.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}"),
            SourceKind::kManifest);
  EXPECT_EQ(kind_of("x.yaml", "job: a\nrun: {script: train.py}\n"), SourceKind::kJobFile);
  EXPECT_EQ(kind_of("x.yaml", "replicas: 2\n"), std::nullopt);
  EXPECT_EQ(kind_of("run", "#!/usr/bin/env bash\n"), SourceKind::kShell);
  EXPECT_EQ(kind_of("run", "#!/usr/bin/python3\n"), SourceKind::kPython);
  EXPECT_EQ(kind_of("run",
                    "\x7f"
                    "ELF"),
            std::nullopt);
  EXPECT_FALSE(may_be_source("a/model.safetensors"));
}

TEST(Ignore, CommentsSayCodesLinesAndReasons) {
  const auto ignores = find_ignores(
      "a: 1  # shanty: ignore SHM001 because\n# shanty: ignore GPU001, GPU002: both\n# more\nb: 2\n"
      "c: \"# not, shanty: ignore X\"\n# shanty: ignore\n");
  ASSERT_EQ(ignores.size(), 3u);
  EXPECT_EQ(ignores[0].applies_to, 1);
  EXPECT_TRUE(ignores[0].has_reason);
  EXPECT_THAT(ignores[1].codes, ElementsAre("GPU001", "GPU002"));
  EXPECT_EQ(ignores[1].applies_to, 4);
  EXPECT_TRUE(ignores[2].codes.empty());
}

TEST(NcclVariables, KnowTheirNamesAndValues) {
  EXPECT_EQ(check_nccl_variable("NCCL_DEBUG", "INFO"), std::nullopt);
  EXPECT_EQ(check_nccl_variable("NCCL_FASTRAK_CTRL_DEV", "eth0"), std::nullopt);
  EXPECT_EQ(check_nccl_variable("PATH", "/"), std::nullopt);
  EXPECT_EQ(check_nccl_variable("NCCL_NET_GDR_LEVEL", "2")->new_value, "PXB");
  EXPECT_EQ(check_nccl_variable("NCCL_P2P_LEVEL", "NVL"), std::nullopt);
  EXPECT_EQ(check_nccl_variable("NCCL_IB_DISABLE", "True")->new_value, "1");
  EXPECT_EQ(check_nccl_variable("NCCL_MAX_NRINGS", "8")->new_name, "NCCL_MAX_NCHANNELS");
  EXPECT_EQ(check_nccl_variable("NCCL_BLOCKING_WAIT", "1")->new_name, "TORCH_NCCL_BLOCKING_WAIT");
  EXPECT_EQ(check_nccl_variable("NCCL_SOCKET_IFNAMES", "eth0")->new_name, "NCCL_SOCKET_IFNAME");
}

TEST(SecretWords, TellSecretsFromStandIns) {
  EXPECT_TRUE(is_written_secret("HF_TOKEN", "hf_abcdefgh"));
  EXPECT_TRUE(is_written_secret("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI"));
  EXPECT_FALSE(is_written_secret("HF_TOKEN", "<your-token>"));
  EXPECT_FALSE(is_written_secret("HF_TOKEN", "$(HUB_TOKEN)"));
  EXPECT_FALSE(is_written_secret("HF_TOKEN", "your_token_here"));
  EXPECT_FALSE(is_written_secret("TOKEN_PATH", "/var/run/token"));
  EXPECT_FALSE(is_written_secret("API_KEY", "/etc/keys/api"));
  EXPECT_FALSE(is_written_secret("MAX_TOKENS", "1234567890"));
  EXPECT_FALSE(is_written_secret("PAD_TOKEN", "<padding>x"));
}

}  // namespace
}  // namespace shanty::lint
