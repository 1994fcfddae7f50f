#include "ckpt/piece_index.h"

#include <algorithm>

namespace shanty::ckpt {
namespace {

uint64_t begin_of(const Box& box, size_t dim) { return box.offsets[dim]; }
uint64_t end_of(const Box& box, size_t dim) { return box.offsets[dim] + box.shape[dim]; }

size_t dimension_with_most_cuts(const StoredTensor& tensor) {
  size_t best = 0;
  size_t most = 0;
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    std::vector<uint64_t> begins;
    for (const StoredPiece& piece : tensor.pieces) begins.push_back(begin_of(piece.box, dim));
    std::sort(begins.begin(), begins.end());
    const auto cuts =
        static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (cuts > most) {
      most = cuts;
      best = dim;
    }
  }
  return best;
}

bool meet(const Box& a, const Box& b) {
  for (size_t dim = 0; dim < a.offsets.size(); ++dim) {
    if (begin_of(a, dim) >= end_of(b, dim) || begin_of(b, dim) >= end_of(a, dim)) return false;
  }
  return true;
}

// Bytes from one index of each dimension to the next in a box that is stored row-major.
std::vector<uint64_t> strides_of(const Box& box, uint64_t element_bytes) {
  std::vector<uint64_t> strides(box.shape.size());
  uint64_t stride = element_bytes;
  for (size_t dim = strides.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= box.shape[dim];
  }
  return strides;
}

}  // namespace

PieceIndex::PieceIndex(const StoredTensor& tensor) {
  for (const StoredPiece& piece : tensor.pieces) pieces_.push_back(&piece);
  if (tensor.shape.empty()) return;
  dimension_ = dimension_with_most_cuts(tensor);
  std::sort(pieces_.begin(), pieces_.end(), [this](const StoredPiece* a, const StoredPiece* b) {
    return begin_of(a->box, dimension_) < begin_of(b->box, dimension_);
  });
  uint64_t end = 0;
  for (const StoredPiece* piece : pieces_) {
    max_end_.push_back(end = std::max(end, end_of(piece->box, dimension_)));
  }
}

std::vector<const StoredPiece*> PieceIndex::find(const Box& box) const {
  if (box.offsets.empty()) return pieces_;
  const uint64_t begin = begin_of(box, dimension_);
  const uint64_t end = end_of(box, dimension_);
  const auto first = std::upper_bound(max_end_.begin(), max_end_.end(), begin);
  std::vector<const StoredPiece*> out;
  for (auto i = static_cast<size_t>(first - max_end_.begin()); i < pieces_.size(); ++i) {
    if (begin_of(pieces_[i]->box, dimension_) >= end) break;
    if (meet(pieces_[i]->box, box)) out.push_back(pieces_[i]);
  }
  return out;
}

Intersection::Intersection(const StoredPiece& piece, const Box& want, uint64_t element_bytes,
                           char* out)
    : file_at_(piece.at), out_(out), run_bytes_(element_bytes) {
  const std::vector<uint64_t> file_strides = strides_of(piece.box, element_bytes);
  const std::vector<uint64_t> want_strides = strides_of(want, element_bytes);
  bool in_run = true;  // the dimensions further in are whole in both boxes
  for (size_t dim = want.shape.size(); dim-- > 0;) {
    const uint64_t begin = std::max(begin_of(piece.box, dim), begin_of(want, dim));
    const uint64_t extent = std::min(end_of(piece.box, dim), end_of(want, dim)) - begin;
    file_at_ += (begin - begin_of(piece.box, dim)) * file_strides[dim];
    // None is given by who only asks where in the file it is.
    if (out_ != nullptr) out_ += (begin - begin_of(want, dim)) * want_strides[dim];
    if (in_run) {
      run_bytes_ *= extent;
      in_run = extent == piece.box.shape[dim] && extent == want.shape[dim];
    } else if (extent > 1) {
      extents_.insert(extents_.begin(), extent);
      file_strides_.insert(file_strides_.begin(), file_strides[dim]);
      want_strides_.insert(want_strides_.begin(), want_strides[dim]);
      runs_ *= extent;
    }
  }
}

uint64_t Intersection::place(uint64_t run, uint64_t at,
                             const std::vector<uint64_t>& strides) const {
  for (size_t dim = extents_.size(); dim-- > 0;) {
    at += run % extents_[dim] * strides[dim];
    run /= extents_[dim];
  }
  return at;
}

uint64_t Intersection::first_run_after(uint64_t offset) const {
  uint64_t low = 0;
  uint64_t high = runs_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (file_offset(middle) + run_bytes_ > offset) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace shanty::ckpt
