#pragma once

#include <string>

namespace shanty::follow {

// The labels by which objects of shanty's jobs are found; src/render puts them there.
inline constexpr const char* kJobLabel = "shanty.dev/job";
inline constexpr const char* kManagerLabel = "app.kubernetes.io/managed-by";
inline constexpr const char* kManager = "shanty";

// Of pods whose command does not say it.
inline constexpr const char* kRunDirAnnotation = "shanty.dev/run-dir";

inline std::string selector_of_job(const std::string& job) {
  return std::string(kJobLabel) + "=" + job;
}
inline std::string selector_of_all_jobs() { return std::string(kManagerLabel) + "=" + kManager; }

}  // namespace shanty::follow
