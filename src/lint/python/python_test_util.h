#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "causes/report.h"
#include "lint/python/lint_python.h"

namespace shanty::lint {

inline std::vector<Finding> lint_script(std::string_view text) {
  return lint_python({"train.py", std::string(text), SourceKind::kPython});
}

inline std::vector<std::string> codes_in(std::string_view text) {
  std::vector<std::string> out;
  for (const Finding& finding : lint_script(text)) out.push_back(finding.code);
  return out;
}

inline bool has_code(std::string_view text, std::string_view code) {
  const std::vector<std::string> codes = codes_in(text);
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

// The finding of that code; the first where there are several, an empty one where there is none.
inline Finding finding_in(std::string_view text, std::string_view code) {
  for (Finding& finding : lint_script(text)) {
    if (finding.code == code) return std::move(finding);
  }
  return {};
}

// The text with the edits of all findings of that code.
inline std::string fixed(std::string_view text, std::string_view code) {
  std::vector<Finding> findings;
  for (Finding& finding : lint_script(text)) {
    if (finding.code == code) findings.push_back(std::move(finding));
  }
  return apply_edits(text, findings);
}

// What every script of the tests begins with.
inline constexpr std::string_view kImports = R"(import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from datetime import timedelta
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

rank = int(os.environ["RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
world_size = int(os.environ["WORLD_SIZE"])
)";

inline std::string with_imports(std::string_view text) {
  return std::string(kImports) + std::string(text);
}

}  // namespace shanty::lint
