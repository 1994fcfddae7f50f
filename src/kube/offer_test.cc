#include "kube/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shanty::kube {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

json node(const std::string& rack, const std::string& product, const std::string& gpus) {
  return {
      {"metadata",
       {{"labels",
         {{"topology.kubernetes.io/zone", "z"},
          {"topology.kubernetes.io/region", "r"},
          {"cloud.example/rack", rack},
          {"nvidia.com/gpu.product", product},
          {"nvidia.com/gpu.memory", "81559"},
          {"kubernetes.io/hostname", "h"}}}}},
      {"spec",
       {{"taints",
         {{{"key", "nvidia.com/gpu"}, {"effect", "NoSchedule"}},
          {{"key", "soft"}, {"effect", "PreferNoSchedule"}}}}}},
      {"status", {{"allocatable", {{"cpu", "96"}, {"nvidia.com/gpu", gpus}, {"rdma/hca", "8"}}}}}};
}

TEST(Offer, ReadsNodes) {
  KubernetesOffer offer;
  read_node_offers({node("r1", "H100", "8"), node("r2", "H100", "4"), node("r2", "A100", "0")},
                   offer);
  EXPECT_EQ(*offer.find_resource("nvidia.com/gpu"), (ExtendedResource{"nvidia.com/gpu", 2, 8, 12}));
  EXPECT_EQ(offer.find_resource("rdma/hca")->total, 24U);
  EXPECT_EQ(offer.find_resource("cpu"), nullptr);
  EXPECT_THAT(offer.gpu_models, ElementsAre(GpuModelOffer{"H100", 2, 8, 81559}));
  EXPECT_THAT(offer.topology_labels,
              ElementsAre("topology.kubernetes.io/region", "topology.kubernetes.io/zone",
                          "cloud.example/rack"));
  EXPECT_THAT(offer.taints, ElementsAre(TaintOffer{"nvidia.com/gpu", "", "NoSchedule", 3, 2}));
}

json crd_with(const json& spec) {
  return {{"spec",
           {{"versions",
             {{{"schema",
                {{"openAPIV3Schema", {{"properties", {{"spec", {{"properties", spec}}}}}}}}}}}}}}};
}

TEST(Offer, TellsTheTrainersSchemasApart) {
  const json deep = {{"properties", {{"terminationGracePeriodSeconds", json::object()}}}};
  EXPECT_EQ(trainer_version(crd_with({{"runtimePatches", deep}})), (MinorVersion{2, 3}));
  EXPECT_EQ(trainer_version(crd_with({{"runtimePatches", json::object()}})), (MinorVersion{2, 2}));
  EXPECT_EQ(trainer_version(crd_with({{"podTemplateOverrides", deep}})), (MinorVersion{2, 1}));
  EXPECT_EQ(trainer_version(crd_with({{"podSpecOverrides", deep}})), (MinorVersion{2, 0}));
  EXPECT_FALSE(trainer_version(json::object()).has_value());
}

TEST(Offer, ReadsVersionsOfCloudsToo) {
  EXPECT_EQ(server_version({{"major", "1"}, {"minor", "33+"}}), (MinorVersion{1, 33}));
}

}  // namespace
}  // namespace shanty::kube
