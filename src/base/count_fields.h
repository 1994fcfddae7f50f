#pragma once

#include <cstddef>

namespace shanty {

// Stands for the value of any field.
struct AnyField {
  template <typename T>
  operator T() const;  // never defined: only its type is asked for
};

// How many fields the aggregate T has: lets a test notice a field that its encoding leaves out.
template <typename T, typename... Fields>
consteval size_t count_fields() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return count_fields<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

}  // namespace shanty
