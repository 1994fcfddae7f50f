#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "doctor/run/step_lines.h"

// Lines of steps, in whatever words.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    shanty::parse_step_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}
