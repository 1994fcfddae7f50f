#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace shanty::net {

inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 1024;

// What names a job among all jobs of one user: the same on each node's command line.
struct TokenQuery {
  std::string endpoint_host;
  uint16_t port = 0;
  std::string rdzv_id;
  std::string state_dir;  // the token lies in <state_dir>/tokens/
};

// The secret that the agents and the coordinator of a job share: SHANTY_TOKEN if it is set, else
// the content of the file that SHANTY_TOKEN_FILE names, else of the job's token file, which the
// first caller creates with 256 random bits, mode 0600. Callers that race get the same token. Files
// of other jobs that nobody used in 7 days are removed (see TokenKeeper). Errors: a given secret
// that is too short, too long or has spaces or control characters; a file or directory of shanty's
// own that others own, can read or can write.
Result<std::string> job_token(const TokenQuery& query);

// Marks the job's token file as used now, so that it outlives the next 7 days. Makes none: without
// a file, or with SHANTY_TOKEN or SHANTY_TOKEN_FILE, nothing happens.
void touch_token(const TokenQuery& query);

}  // namespace shanty::net
