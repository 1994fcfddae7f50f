#pragma once

#include <string>
#include <string_view>

#include "kube/api_result.h"
#include "net/http_client.h"

namespace shanty::kube {

// What was attempted, for errors: "list pods in namespace ml".
struct Attempt {
  std::string doing;  // "list pods in namespace ml"
  std::string where;  // "https://10.0.0.1:6443"
  std::string user;   // as the kubeconfig calls it
};

// The error of an answer that is not 2xx, or of none. A Status object in the body is read; other
// bodies (of proxies, in HTML) are told by their first words.
ApiError error_of(const Attempt& attempt, const net::HttpAnswer& answer);

// The same for a Status object that came inside a stream.
ApiError error_of_status(const Attempt& attempt, std::string_view status_json);

}  // namespace shanty::kube
