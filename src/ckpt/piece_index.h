#pragma once

#include <cstdint>
#include <vector>

#include "ckpt/manifest.h"

namespace shanty::ckpt {

// Finds the pieces of one tensor that meet a box: a binary search along the dimension that has the
// most cuts. Keeps a pointer to the tensor.
class PieceIndex {
 public:
  explicit PieceIndex(const StoredTensor& tensor);
  std::vector<const StoredPiece*> find(const Box& box) const;

 private:
  size_t dimension_ = 0;
  std::vector<const StoredPiece*> pieces_;  // by their begin along dimension_
  std::vector<uint64_t> max_end_;           // of pieces_[0..i] along dimension_
};

// What is common to a stored piece and a wanted box, as runs of bytes that lie one after the other
// in both. Runs are numbered in the order of the file.
class Intersection {
 public:
  // `out` is where the want's first element goes.
  Intersection(const StoredPiece& piece, const Box& want, uint64_t element_bytes, char* out);

  uint64_t runs() const { return runs_; }
  uint64_t run_bytes() const { return run_bytes_; }
  uint64_t file_offset(uint64_t run) const { return place(run, file_at_, file_strides_); }
  char* target(uint64_t run) const { return out_ + place(run, 0, want_strides_); }
  uint64_t file_begin() const { return file_offset(0); }
  uint64_t file_end() const { return file_offset(runs_ - 1) + run_bytes_; }
  // The first run that ends after `offset`; runs() if there is none.
  uint64_t first_run_after(uint64_t offset) const;

 private:
  uint64_t place(uint64_t run, uint64_t at, const std::vector<uint64_t>& strides) const;

  std::vector<uint64_t> extents_;       // of the dimensions outside of a run
  std::vector<uint64_t> file_strides_;  // in bytes, of those
  std::vector<uint64_t> want_strides_;
  uint64_t file_at_ = 0;
  char* out_ = nullptr;
  uint64_t runs_ = 1;
  uint64_t run_bytes_ = 0;
};

}  // namespace shanty::ckpt
