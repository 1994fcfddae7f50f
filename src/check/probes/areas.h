#pragma once

#include "check/probe.h"

namespace shanty::check {

// One function for each area, in the file of its name.
void probe_room(const ProbeInput& input, std::vector<Finding>& findings);
void probe_gpus(const ProbeInput& input, std::vector<Finding>& findings);
void probe_nodes(const ProbeInput& input, std::vector<Finding>& findings);
void probe_storage(const ProbeInput& input, std::vector<Finding>& findings);
void probe_images(const ProbeInput& input, std::vector<Finding>& findings);
void probe_quota(const ProbeInput& input, std::vector<Finding>& findings);
void probe_gang(const ProbeInput& input, std::vector<Finding>& findings);
void probe_admission(const ProbeInput& input, std::vector<Finding>& findings);

}  // namespace shanty::check
