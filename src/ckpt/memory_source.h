#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ckpt/memory_vfs.h"
#include "ckpt/rank_store.h"
#include "ckpt/reader.h"

namespace shanty::ckpt {

// The steps of which all ranks of their world are whole in the slots of `stores`.
std::set<uint64_t> steps_in_memory(const std::map<int, std::shared_ptr<RankStore>>& stores);

// A checkpoint in slots, read like one on storage: with checksums, taken when this is made.
class MemorySource {
 public:
  static Result<std::unique_ptr<MemorySource>> open(
      const std::map<int, std::shared_ptr<RankStore>>& stores, uint64_t step);
  CheckpointReader& reader() { return *reader_; }

 private:
  std::map<int, SlotContent> contents_;  // keep the slots alive
  std::string manifest_;
  MemoryVfs vfs_;
  std::unique_ptr<CheckpointReader> reader_;
};

}  // namespace shanty::ckpt
