#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "follow/remove.h"
#include "kube/client.h"

namespace shanty::follow {

struct StartedJob {
  std::string name;  // as its labels say
  std::string kind;  // "PyTorchJob"; "Pod" for bare pods
};

// Applies the objects of a rendered job in their order. Everything that belongs to it is made the
// property of the object from which its pods come (of the ConfigMap, for bare pods), so that the
// cluster removes it together with that. What was made before an error is removed again.
// `dry_run`: the server checks every object and stores none.
kube::ApiResult<StartedJob> start_job(kube::Client& client,
                                      const std::vector<nlohmann::json>& objects, bool dry_run,
                                      const Say& say);

}  // namespace shanty::follow
