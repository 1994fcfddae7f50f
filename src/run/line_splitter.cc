#include "run/line_splitter.h"

#include <utility>

namespace shanty {
namespace {

constexpr size_t kMaxUtf8ContinuationBytes = 3;

// The last border of a UTF-8 character at or before `at`; `at` where there is none near.
size_t character_border(std::string_view text, size_t at) {
  for (size_t back = 0; back <= kMaxUtf8ContinuationBytes; ++back) {
    if ((static_cast<unsigned char>(text[at - back]) & 0xc0) != 0x80) return at - back;
  }
  return at;
}

// What stands on the line after "10%\r20%\r": the last state that is not empty.
std::string_view last_redraw(std::string_view text) {
  while (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  const size_t at = text.rfind('\r');
  return at == std::string_view::npos ? text : text.substr(at + 1);
}

}  // namespace

void LineSplitter::take(std::string_view bytes, int64_t unix_ns, std::vector<SplitLine>& out) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, newline);
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    partial_ += piece;
    partial_unix_ns_ = unix_ns;
    if (newline != std::string_view::npos) {
      end_line(unix_ns, out);
    } else {
      hand_out_redraw(unix_ns, out);
      cut_giant(unix_ns, out);
    }
  }
}

void LineSplitter::end_line(int64_t unix_ns, std::vector<SplitLine>& out) {
  if (keep_last_redraw_) partial_ = std::string(last_redraw(partial_));
  cut_giant(unix_ns, out);
  out.push_back({unix_ns, std::move(partial_), true, continues_});
  partial_.clear();
  continues_ = false;
}

// A newline that ends the piece is not lost: a rest, maybe empty, always stays behind.
void LineSplitter::cut_giant(int64_t unix_ns, std::vector<SplitLine>& out) {
  while (partial_.size() > kMaxLineBytes) {
    const size_t cut = character_border(partial_, kMaxLineBytes);
    out.push_back({unix_ns, partial_.substr(0, cut), false, continues_});
    partial_.erase(0, cut);
    continues_ = true;
  }
}

void LineSplitter::hand_out_redraw(int64_t unix_ns, std::vector<SplitLine>& out) {
  if (!keep_last_redraw_ || partial_.find('\r') == std::string::npos) return;
  const std::string state(last_redraw(partial_));
  if (last_redraw_unix_ns_ == 0) last_redraw_unix_ns_ = unix_ns;
  if (unix_ns - last_redraw_unix_ns_ >= kRedrawEvery.count() && !state.empty()) {
    out.push_back({unix_ns, state, true, false});
    last_redraw_unix_ns_ = unix_ns;
  }
  // Only what may still be the last state need be kept; the \r marks the line as a redrawn one.
  const bool complete = partial_.back() == '\r';
  partial_ = complete ? "\r" + state + "\r" : "\r" + state;
}

void LineSplitter::finish(std::vector<SplitLine>& out) {
  if (partial_.empty() && !continues_) return;
  if (keep_last_redraw_) partial_ = std::string(last_redraw(partial_));
  out.push_back({partial_unix_ns_, std::move(partial_), false, continues_});
  partial_.clear();
  continues_ = false;
}

void LineSplitter::reset() {
  partial_.clear();
  continues_ = false;
}

}  // namespace shanty
