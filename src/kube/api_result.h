#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/result.h"

namespace shanty::kube {

// An Error of the API: `message` is the sentence for the user, the rest is for the program.
struct ApiError : Error {
  int status = 0;          // of HTTP; 0: there was no answer
  std::string reason;      // of the Status object: "NotFound", "Conflict", "Expired"
  std::string detail;      // the server's own words
  bool broke_off = false;  // a good answer had begun

  bool is_not_found() const { return status == 404; }
  bool is_forbidden() const { return status == 401 || status == 403; }
  // The same request may be taken later: nobody answered, or the server was in no state to.
  bool may_pass() const { return status == 0 || status == 429 || status >= 500; }
  bool is_expired() const { return status == 410 || reason == "Expired" || reason == "Gone"; }
};

// Result<T> whose error is an ApiError. TRY works with both.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::move(value)) {}                // NOLINT: implicit by design
  ApiResult(ApiError error) : state_(std::move(error)) {}         // NOLINT: implicit by design
  ApiResult(Error error) : state_(ApiError{std::move(error)}) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T value() && { return std::get<T>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const ApiError& error() const { return std::get<ApiError>(state_); }

 private:
  std::variant<T, ApiError> state_;
};

template <>
class [[nodiscard]] ApiResult<void> {
 public:
  ApiResult() = default;
  ApiResult(ApiError error) : error_(std::move(error)) {}         // NOLINT: implicit by design
  ApiResult(Error error) : error_(ApiError{std::move(error)}) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {}
  const ApiError& error() const { return *error_; }

 private:
  std::optional<ApiError> error_;
};

using ApiStatus = ApiResult<void>;

}  // namespace shanty::kube
