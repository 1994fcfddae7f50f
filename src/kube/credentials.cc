#include "kube/credentials.h"

#include "base/base64.h"
#include "net/url.h"
#include "os/files.h"

namespace shanty::kube {
namespace {

constexpr Duration kTokenFileLife = std::chrono::seconds(60);
constexpr int64_t kExpiryMargin_s = 10;
constexpr size_t kMaxTokenBytes = size_t{64} << 10;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

}  // namespace

Credentials::Credentials(const Access& access, const Clock& clock)
    : access_(access), clock_(clock) {}

Status Credentials::update() {
  if (access_.exec) {
    const int64_t now_s = clock_.unix_time_ns() / 1'000'000'000;
    const bool due =
        !exec_ || (exec_->expires_unix_s && *exec_->expires_unix_s - kExpiryMargin_s <= now_s);
    if (!due) return {};
    exec_ = TRY(run_exec_plugin(access_));
    ++generation_;
  } else if (!access_.token_file.empty()) {
    const TimePoint now = clock_.now();
    if (file_read_ && now - *file_read_ < kTokenFileLife) return {};
    std::string token = trimmed(
        TRY(read_file(access_.token_file, kMaxTokenBytes).context("reading the token file")));
    if (token.empty()) return Error{"the token file " + access_.token_file + " is empty"};
    file_token_ = SecretText(std::move(token));
    file_read_ = now;
  }
  return {};
}

Result<std::vector<net::HttpHeader>> Credentials::headers() {
  const std::lock_guard lock(mutex_);
  TRY_STATUS(update());
  std::vector<net::HttpHeader> headers;
  const SecretText& token = exec_ ? exec_->token : file_read_ ? file_token_ : access_.token;
  if (!token.empty()) {
    headers.push_back({"Authorization", "Bearer " + trimmed(token.reveal())});
  } else if (!access_.username.empty()) {
    headers.push_back({"Authorization", "Basic " + encode_base64(access_.username + ":" +
                                                                 access_.password.reveal())});
  }
  const Impersonation& other = access_.impersonate;
  if (!other.user.empty()) headers.push_back({"Impersonate-User", other.user});
  if (!other.uid.empty()) headers.push_back({"Impersonate-Uid", other.uid});
  for (const std::string& group : other.groups) headers.push_back({"Impersonate-Group", group});
  for (const auto& [key, value] : other.extra) {
    headers.push_back({"Impersonate-Extra-" + net::percent_encode(key), value});
  }
  return headers;
}

net::HttpsTrust Credentials::trust(uint64_t& generation) {
  const std::lock_guard lock(mutex_);
  generation = generation_;
  net::HttpsTrust trust = access_.trust;
  if (exec_ && !exec_->certificate_pem.empty()) {
    trust.certificate_pem = exec_->certificate_pem;
    trust.key_pem = exec_->key_pem;
  }
  return trust;
}

bool Credentials::renew() {
  const std::lock_guard lock(mutex_);
  const bool can = exec_.has_value() || file_read_.has_value();
  exec_.reset();
  file_read_.reset();
  return can;
}

}  // namespace shanty::kube
