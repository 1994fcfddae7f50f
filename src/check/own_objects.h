#pragma once

#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "check/snapshot.h"
#include "kube/api_result.h"
#include "kube/client.h"

namespace shanty::check {

// The objects of a job itself: what they bring, and what the server thinks of them.

// Adds what the objects make beside pods, so that nothing of it is missed: claims, Secrets,
// priority classes, queues, their namespace.
void add_own_objects(const std::vector<nlohmann::json>& objects, Snapshot& snapshot);

// Has the server check the objects, and the pods that they would bring, without storing them:
// schema, webhooks, quotas, limits, pod security.
void try_objects(kube::Client& client, const std::vector<nlohmann::json>& objects,
                 Snapshot& snapshot);

// Whether the server would never make the pods of an object, by its word on one that was tried.
// Nothing: it would, or it is about something that is judged elsewhere or made by `objects`.
std::optional<Refusal> refusal_of_pod(const kube::ApiError& error,
                                      const std::vector<nlohmann::json>& objects);

}  // namespace shanty::check
