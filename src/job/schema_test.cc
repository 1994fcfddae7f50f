#include "job/schema.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job/keys.h"
#include "job/parse.h"

namespace shanty {
namespace {

using Json = nlohmann::json;

const Json* schema_of(const Json& root, std::string path) {
  const Json* node = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    std::string part = path.substr(0, dot);
    path = dot == path.npos ? "" : path.substr(dot + 1);
    const bool in_list = part.ends_with("[]");
    if (in_list) part.resize(part.size() - 2);
    if (!node->contains("properties") || !(*node)["properties"].contains(part)) return nullptr;
    node = &(*node)["properties"][part];
    if (in_list) node = &(*node)["items"];
  }
  return node;
}

TEST(JobSchema, DescribesEveryKey) {
  const Json schema = Json::parse(job_schema_json());
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  for (const Key& key : job_keys()) {
    const Json* found = schema_of(schema, std::string(key.path));
    ASSERT_NE(found, nullptr) << key.path;
    EXPECT_EQ((*found)["description"], key.doc) << key.path;
  }
}

TEST(JobSchema, SectionsAreClosedAndDefaultsTyped) {
  const Json schema = Json::parse(job_schema_json());
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ((*schema_of(schema, "restart"))["additionalProperties"], false);
  EXPECT_EQ((*schema_of(schema, "restart.max"))["default"], 10);
  EXPECT_EQ((*schema_of(schema, "restart.warm"))["default"], true);
  EXPECT_EQ((*schema_of(schema, "loader.workers"))["default"], "auto");
  EXPECT_EQ((*schema_of(schema, "batch.warmup"))["default"], "5%");
  EXPECT_EQ((*schema_of(schema, "nodes"))["default"], 1);
  EXPECT_FALSE(schema_of(schema, "steps")->contains("default"));
}

TEST(JobKeys, EachHasItsOwnFieldAndADocumentedMeaning) {
  Job job;
  job.data.emplace_back();
  std::vector<Slot> seen;
  for (const Key& key : job_keys()) {
    EXPECT_FALSE(key.doc.empty()) << key.path;
    EXPECT_EQ(key.doc.back(), '.') << key.path;
    const Slot slot = key.slot(job);
    if (std::holds_alternative<std::monostate>(slot)) continue;
    for (const Slot& other : seen) EXPECT_NE(slot, other) << key.path;
    seen.push_back(slot);
  }
}

TEST(JobKeys, DocumentationPageHoldsTheGeneratedTable) {
  const std::string here = __FILE__;
  const std::string page = here.substr(0, here.rfind("/src/")) + "/docs/job-file.md";
  std::ifstream in(page);
  ASSERT_TRUE(in) << page;
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_NE(text.str().find(job_keys_markdown()), std::string::npos)
      << "put the output of `shanty schema --markdown` into " << page;
}

TEST(JobExamples, AreAccepted) {
  const std::string here = __FILE__;
  const std::string directory = here.substr(0, here.rfind("/src/")) + "/examples/jobs/";
  for (const char* name : {"minimal.yaml", "two-nodes.yaml", "cluster.yaml", "large-model.yaml"}) {
    const auto text = read_job_file(directory + name);
    ASSERT_TRUE(text.ok()) << text.error().message;
    const ParsedJob parsed = parse_job(*text, name);
    EXPECT_TRUE(parsed.diagnostics.empty()) << format_diagnostics(parsed.diagnostics, *text, {});
  }
}

}  // namespace
}  // namespace shanty
