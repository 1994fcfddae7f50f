#include "kube/api_error.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "text/json_fields.h"
#include "text/utf8.h"

namespace shanty::kube {
namespace {

using nlohmann::json;

constexpr size_t kMaxDetailBytes = 2000;
constexpr size_t kMaxForeignBytes = 120;
constexpr size_t kMaxCauses = 8;

// The body of what answered when it is no Status: its first words, without markup.
std::string first_words(std::string_view body) {
  std::string out;
  bool in_tag = false;
  for (const char c : body.substr(0, 4096)) {
    if (c == '<') in_tag = true;
    const bool blank = c == '\n' || c == '\r' || c == '\t' || c == ' ' || c == '>';
    if (!in_tag && !(blank && (out.empty() || out.ends_with(' ')))) out += blank ? ' ' : c;
    if (c == '>') in_tag = false;
    if (out.size() >= kMaxForeignBytes) break;
  }
  return printable(out);
}

std::string detail_of(const json& status) {
  std::string detail = json_string(status, "message");
  const json* details = json_object(status, "details");
  const json* causes = details == nullptr ? nullptr : json_array(*details, "causes");
  if (detail.empty() && causes != nullptr) {
    for (size_t i = 0; i < std::min(causes->size(), kMaxCauses); ++i) {
      detail += (i == 0 ? "" : "; ") + json_string((*causes)[i], "field") + ": " +
                json_string((*causes)[i], "message");
    }
  }
  if (detail.size() > kMaxDetailBytes) detail = detail.substr(0, kMaxDetailBytes) + "...";
  return printable(detail);
}

std::string hint_of(int status, const std::string& reason, const Attempt& attempt) {
  switch (status) {
    case 401:
      return "log in anew: the credentials of user \"" + attempt.user +
             "\" are missing, wrong or expired";
    case 403:
      if (reason == "Forbidden") {
        return "ask for that right, or see what you have with kubectl auth can-i --list";
      }
      return "";
    case 404:
      return "";
    case 409:
      return reason == "AlreadyExists" ? "choose another name or delete the old one" : "try again";
    case 410:
      return "list it anew";
    case 413:
      return "the object is too large for the server";
    case 429:
    case 503:
      return "the server is busy: try again in a minute";
    case 500:
    case 502:
    case 504:
      return "look at the API server and what stands before it";
    default:
      return "";
  }
}

ApiError describe(const Attempt& attempt, int http_status, const json& status) {
  ApiError error;
  error.status = json_int(status, "code", http_status);
  error.reason = json_string(status, "reason");
  error.detail = detail_of(status);
  error.message =
      "cannot " + attempt.doing + ": " +
      (error.detail.empty() ? "the server answers " + std::to_string(error.status) : error.detail);
  const std::string hint = hint_of(error.status, error.reason, attempt);
  if (!hint.empty()) error.message += "; " + hint;
  return error;
}

std::string advice_of(net::HttpFailure failure) {
  switch (failure) {
    case net::HttpFailure::kTls:
      return "; is the kubeconfig for this cluster, and is its certificate authority the right "
             "one?";
    case net::HttpFailure::kConnect:
    case net::HttpFailure::kResolve:
      return "; is the cluster up, and do you need a VPN or a proxy?";
    case net::HttpFailure::kTimeout:
    case net::HttpFailure::kClosed:
      return "; the server or what stands before it is overloaded or cut off: try again";
    case net::HttpFailure::kProtocol:
      return "; is that address an API server?";
    case net::HttpFailure::kProxy:
      return "; look at proxy-url in the kubeconfig and at HTTPS_PROXY and NO_PROXY";
    case net::HttpFailure::kNone:
    case net::HttpFailure::kRequest:
    case net::HttpFailure::kTooLarge:
    case net::HttpFailure::kStopped:
      return "";
  }
  __builtin_unreachable();
}

}  // namespace

ApiError error_of(const Attempt& attempt, const net::HttpAnswer& answer) {
  if (!answer.whole()) {
    ApiError error;
    error.broke_off = answer.status / 100 == 2;
    error.status = error.broke_off ? 0 : answer.status;
    error.message = "cannot " + attempt.doing + ": " + answer.error + advice_of(answer.failure);
    return error;
  }
  const auto parsed = parse_json(answer.body);
  if (parsed && parsed->is_object() && json_string(*parsed, "kind") == "Status") {
    return describe(attempt, answer.status, *parsed);
  }
  const std::string words = first_words(answer.body);
  json status = {{"code", answer.status}};
  status["message"] = attempt.where + " answers " + std::to_string(answer.status) +
                      (words.empty() ? std::string() : " \"" + words + "\"");
  return describe(attempt, answer.status, status);
}

ApiError error_of_status(const Attempt& attempt, std::string_view status_json) {
  const auto parsed = parse_json(status_json);
  return describe(attempt, 0, parsed && parsed->is_object() ? *parsed : json::object());
}

}  // namespace shanty::kube
