#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/clock.h"
#include "follow/find.h"
#include "kube/client.h"

namespace shanty::follow {

using Say = std::function<void(const std::string& sentence)>;

// How long objects may take to go: pods get their grace period to save.
inline constexpr Duration kRemoveLimit = std::chrono::minutes(5);

// Ends a job and removes everything of it but its claims, on which its run directories are.
// Returns when all of it is gone.
kube::ApiStatus remove_job(kube::Client& client, const FoundJob& job, const Say& say,
                           Duration limit = kRemoveLimit);

// The job called `name`, or what is left of it when it has neither an object of its own nor pods.
kube::ApiResult<FoundJob> find_job_or_rest(kube::Client& client, const std::string& name);

// Ends the pods of a job, gently, and leaves its objects: suspends it, or keeps Kueue from letting
// it in. Returns when its pods are gone.
kube::ApiStatus stop_job(kube::Client& client, const FoundJob& job, const Say& say,
                         Duration limit = kRemoveLimit);

// The annotation on the ConfigMap of a job of bare pods that was stopped.
inline constexpr const char* kStoppedAnnotation = "shanty.dev/stopped";
inline std::string config_name(const std::string& job) { return job + "-job"; }

}  // namespace shanty::follow
