#include "kube/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::kube {
namespace {

using ::testing::ElementsAre;

TEST(Discovery, ReadsTheAggregatedForm) {
  const auto answer = parse_discovery(R"({"kind": "APIGroupDiscoveryList", "items": [
    {"metadata": {"name": "kueue.x-k8s.io"}, "versions": [
      {"version": "v1beta2", "freshness": "Current", "resources": [
        {"resource": "clusterqueues", "responseKind": {"group": "", "kind": "ClusterQueue"},
         "scope": "Cluster", "subresources": [{"subresource": "status",
           "responseKind": {"kind": "ClusterQueue"}}]},
        {"resource": "localqueues", "responseKind": {"kind": "LocalQueue"},
         "scope": "Namespaced"}]},
      {"version": "v1beta1", "resources": []}]},
    {"metadata": {"name": "metrics.k8s.io"}, "versions": [
      {"version": "v1beta1", "freshness": "Stale"}]}]})");
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->aggregated);
  ASSERT_EQ(answer->served.kinds.size(), 2U);
  EXPECT_EQ(answer->served.kinds[0],
            (ServedKind{"kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", false}));
  EXPECT_TRUE(answer->served.kinds[1].namespaced);
  EXPECT_THAT(answer->served.gaps, ElementsAre("metrics.k8s.io/v1beta1"));
}

TEST(Discovery, ReadsTheOldForm) {
  const auto core = parse_discovery(R"({"kind": "APIVersions", "versions": ["v1"]})");
  EXPECT_THAT(core->to_ask, ElementsAre("/api/v1"));
  const auto groups = parse_discovery(R"({"kind": "APIGroupList", "groups": [{"name": "x",
    "versions": [{"groupVersion": "x/v1"}, {"groupVersion": "x/v2"}],
    "preferredVersion": {"groupVersion": "x/v2"}}]})");
  EXPECT_THAT(groups->to_ask, ElementsAre("/apis/x/v2", "/apis/x/v1"));
  Served served;
  ASSERT_TRUE(add_resource_list(R"({"kind": "APIResourceList", "groupVersion": "x/v2",
    "resources": [{"name": "things", "kind": "Thing", "namespaced": true},
                  {"name": "things/status", "kind": "Thing", "namespaced": true}]})",
                                served)
                  .ok());
  ASSERT_EQ(served.kinds.size(), 1U);
  EXPECT_EQ(served.kinds[0], (ServedKind{"x", "v2", "Thing", "things", true}));
}

TEST(Discovery, RefusesOtherDocuments) {
  EXPECT_FALSE(parse_discovery("<html>").ok());
  EXPECT_FALSE(parse_discovery("{\"kind\": \"Status\"}").ok());
  Served served;
  EXPECT_FALSE(add_resource_list("{}", served).ok());
}

}  // namespace
}  // namespace shanty::kube
