#include "causes/finding.h"

namespace shanty {

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "info";
  }
  return "";
}

}  // namespace shanty
