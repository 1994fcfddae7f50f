#include <algorithm>

#include "causes/report.h"

namespace shanty {

std::string apply_edits(std::string_view text, std::span<const Finding> findings) {
  std::vector<const Edit*> edits;
  for (const Finding& finding : findings) {
    for (const Edit& edit : finding.edits) {
      if (edit.begin <= edit.end && edit.end <= text.size()) edits.push_back(&edit);
    }
  }
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit* a, const Edit* b) { return a->begin < b->begin; });
  std::string out;
  size_t at = 0;
  const Edit* last = nullptr;
  for (const Edit* edit : edits) {
    if (last != nullptr && (edit->begin < last->end || *edit == *last)) continue;
    out += text.substr(at, edit->begin - at);
    out += edit->text;
    at = edit->end;
    last = edit;
  }
  out += text.substr(at);
  return out;
}

}  // namespace shanty
