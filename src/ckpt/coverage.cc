#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "ckpt/manifest.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

using Boxes = std::vector<const Box*>;

uint64_t begin_of(const Box& box, size_t dim) { return box.offsets[dim]; }
uint64_t end_of(const Box& box, size_t dim) { return box.offsets[dim] + box.shape[dim]; }

void sort_along(std::span<const Box*> boxes, size_t dim) {
  std::sort(boxes.begin(), boxes.end(),
            [dim](const Box* a, const Box* b) { return begin_of(*a, dim) < begin_of(*b, dim); });
}

bool overlap(const Box& a, const Box& b) {
  for (size_t dim = 0; dim < a.offsets.size(); ++dim) {
    if (begin_of(a, dim) >= end_of(b, dim) || begin_of(b, dim) >= end_of(a, dim)) return false;
  }
  return true;
}

std::string place(const Box& box) { return fmt::format("[{}]", fmt::join(box.offsets, ", ")); }

Error overlap_error(const Box& a, const Box& b) {
  return Error{fmt::format("pieces at {} and {} overlap", place(a), place(b))};
}

// Compares each box with those whose range along `dim` is still open where its own begins.
Status check_pairs(std::span<const Box*> boxes, size_t dim) {
  sort_along(boxes, dim);
  Boxes open;
  for (const Box* box : boxes) {
    std::erase_if(open, [&](const Box* o) { return end_of(*o, dim) <= begin_of(*box, dim); });
    for (const Box* other : open) {
      if (overlap(*box, *other)) return overlap_error(*other, *box);
    }
    open.push_back(box);
  }
  return {};
}

// Sorts along `dim` and returns where groups begin that share no place along it.
std::vector<size_t> split_along(std::span<const Box*> boxes, size_t dim) {
  sort_along(boxes, dim);
  std::vector<size_t> starts;
  uint64_t end = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (i == 0 || begin_of(*boxes[i], dim) >= end) starts.push_back(i);
    end = std::max(end, end_of(*boxes[i], dim));
  }
  return starts;
}

// Splits by planes that cut no box until no group can be split: one round for tensors cut along
// one dimension, one per dimension for grids. Pairs are compared in what is left.
Status check_disjoint(Boxes& all, size_t dimensions) {
  std::vector<std::span<const Box*>> todo = {all};
  while (!todo.empty()) {
    const std::span<const Box*> boxes = todo.back();
    todo.pop_back();
    if (boxes.size() < 2) continue;
    if (dimensions == 0) return overlap_error(*boxes[0], *boxes[1]);
    bool was_split = false;
    for (size_t dim = 0; dim < dimensions && !was_split; ++dim) {
      const std::vector<size_t> starts = split_along(boxes, dim);
      was_split = starts.size() > 1;
      for (size_t i = 0; was_split && i < starts.size(); ++i) {
        const size_t end = i + 1 < starts.size() ? starts[i + 1] : boxes.size();
        todo.push_back(boxes.subspan(starts[i], end - starts[i]));
      }
    }
    if (!was_split) TRY_STATUS(check_pairs(boxes, 0));
  }
  return {};
}

// Where along `dim` the boxes, which are disjoint, first fail to fill the rest of the tensor.
uint64_t first_gap_along(const Boxes& boxes, const std::vector<uint64_t>& shape, size_t dim) {
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> events;  // place -> what begins, what ends
  for (const Box* box : boxes) {
    uint64_t across = 1;
    for (size_t i = dim + 1; i < shape.size(); ++i) across *= box->shape[i];
    events[begin_of(*box, dim)].first += across;
    events[end_of(*box, dim)].second += across;
  }
  uint64_t full = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i) full *= shape[i];
  uint64_t covered = 0;
  if (events.empty() || events.begin()->first > 0) return 0;
  for (const auto& [at, change] : events) {
    covered += change.first;
    covered -= change.second;
    if (covered != full) return at;
  }
  return shape[dim];
}

// The first element in row-major order that no box holds.
std::string first_gap(Boxes boxes, const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> at;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    at.push_back(first_gap_along(boxes, shape, dim));
    std::erase_if(boxes, [&](const Box* box) {
      return begin_of(*box, dim) > at.back() || end_of(*box, dim) <= at.back();
    });
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

Status check_tensor(const StoredTensor& tensor) {
  const uint64_t total = TRY(element_count(tensor.shape));
  Boxes boxes;
  uint64_t sum = 0;
  for (const StoredPiece& piece : tensor.pieces) {
    TRY_STATUS(check_box(piece.box, tensor.shape));
    const uint64_t count = TRY(element_count(piece.box.shape));
    if (count == 0) return Error{fmt::format("the piece at {} is empty", place(piece.box))};
    sum += std::min(count, std::numeric_limits<uint64_t>::max() - sum);
    boxes.push_back(&piece.box);
  }
  TRY_STATUS(check_disjoint(boxes, tensor.shape.size()));
  if (sum != total) {
    return Error{fmt::format("{} of {} elements are in no piece, the first at {}", total - sum,
                             total, first_gap(boxes, tensor.shape))};
  }
  return {};
}

}  // namespace

Status check_coverage(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) {
    Status checked = check_tensor(tensor);
    if (!checked.ok()) return std::move(checked).context("tensor " + in_quotes(name));
  }
  return {};
}

std::map<std::string, StoredTensor> stored_tensors(const std::vector<PieceSpec>& pieces,
                                                   const Layout& layout) {
  std::map<std::string, StoredTensor> out;
  for (const PieceSpec& piece : pieces) {
    out[piece.name] = {.dtype = piece.dtype,
                       .element_bytes = piece.element_bytes,
                       .shape = piece.shape,
                       .group = piece.group};
  }
  for (const PlacedBox& placed : layout.boxes) {
    if (placed.bytes == 0) continue;
    const PieceSpec& piece = pieces[placed.piece];
    out[piece.name].pieces.push_back(
        {.file = placed.file, .at = placed.at, .box = piece.boxes[placed.box]});
  }
  return out;
}

}  // namespace shanty::ckpt
