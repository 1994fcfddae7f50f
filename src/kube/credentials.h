#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "kube/access.h"
#include "kube/exec_credential.h"
#include "net/http_message.h"

namespace shanty::kube {

// The identity that requests carry, renewed when it is due. Any thread.
class Credentials {
 public:
  explicit Credentials(const Access& access, const Clock& clock = system_clock());

  // Headers for the next request (their values are secret). May run the plugin or read a file.
  Result<std::vector<net::HttpHeader>> headers();
  // What the connection must show, with the plugin's certificate where it gives one. After
  // headers(); `generation` counts the changes.
  net::HttpsTrust trust(uint64_t& generation);
  // The server did not accept them: get new ones. False when there is nothing to renew.
  bool renew();

 private:
  Status update();

  const Access& access_;
  const Clock& clock_;
  std::mutex mutex_;
  std::optional<ExecCredential> exec_;
  SecretText file_token_;
  std::optional<TimePoint> file_read_;
  uint64_t generation_ = 0;
};

}  // namespace shanty::kube
