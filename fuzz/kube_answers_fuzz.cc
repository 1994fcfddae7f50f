// What an API server or a credential plugin says: watch events in pieces, discovery documents,
// Status objects, ExecCredentials, times.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "kube/api_error.h"
#include "kube/discovery.h"
#include "kube/exec_credential.h"
#include "kube/rfc3339.h"
#include "kube/watch.h"

namespace {

void watch(std::string_view bytes, size_t step) {
  shanty::kube::WatchLines lines(
      [](shanty::kube::WatchType, const nlohmann::json&) { return true; });
  for (size_t i = 0; i < bytes.size(); i += step) {
    if (!lines.feed(bytes.substr(i, step)).ok()) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  watch(text, 1 + data[0]);
  static_cast<void>(shanty::kube::parse_discovery(text));
  shanty::kube::Served served;
  static_cast<void>(shanty::kube::add_resource_list(text, served));
  static_cast<void>(shanty::kube::parse_exec_credential(text, "v1"));
  static_cast<void>(shanty::kube::parse_rfc3339_s(text));
  shanty::net::HttpAnswer answer;
  answer.status = 400;
  answer.body = text;
  static_cast<void>(shanty::kube::error_of({.doing = "x"}, answer));
  return 0;
}
