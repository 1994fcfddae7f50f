#pragma once

#include <vector>

#include "render/context.h"

namespace shanty {

// Chooses by what was asked for, what the target can have and what the cluster offers. Errors: a
// mechanism that was asked for by name and cannot be had.
Result<Gang> choose_gang(const Job& job, const KubernetesOffer& offer, GangChoice asked,
                         const std::vector<GangMechanism>& possible, std::string_view target,
                         std::vector<std::string>& notes);

// Labels of Kueue on the object that Kueue admits.
void add_queue(const RenderContext& c, Yaml& metadata);

// What makes pods of this template members of the job's group.
void join_gang(const RenderContext& c, Yaml& pod_template, bool operator_makes_gang);

// The group itself, for `pods` of them; nothing when the mechanism needs no object.
std::vector<Piece> gang_objects(const RenderContext& c, uint64_t pods);

// All mechanisms, for targets whose pods are made from the template as it is.
std::vector<GangMechanism> every_gang(const KubernetesOffer& offer);
std::vector<GangMechanism> no_gang(const KubernetesOffer& offer);

}  // namespace shanty
