#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"
#include "kube/access.h"

namespace shanty::kube {

// What an exec plugin hands out (client.authentication.k8s.io).
struct ExecCredential {
  SecretText token;
  std::string certificate_pem;
  SecretText key_pem;
  std::optional<int64_t> expires_unix_s;
};

// The KUBERNETES_EXEC_INFO for the plugin of `access`.
std::string exec_info(const Access& access, bool interactive);

// What the plugin printed; `api_version` is the one that was asked for. Errors show nothing of it.
Result<ExecCredential> parse_exec_credential(std::string_view text, std::string_view api_version);

// Runs the plugin, at most kMaxPluginTime; it may talk on stderr. It gets the terminal when it
// wants it and there is one.
Result<ExecCredential> run_exec_plugin(const Access& access);

}  // namespace shanty::kube
