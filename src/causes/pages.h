#pragma once

#include <cstddef>
#include <string_view>

namespace shanty {

// The pages of src/causes/pages as they were when the program was built.
extern const std::string_view kPages_en[];
extern const size_t kPageCount_en;
extern const std::string_view kPages_zh[];
extern const size_t kPageCount_zh;

}  // namespace shanty
