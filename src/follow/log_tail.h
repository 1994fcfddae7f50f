#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace shanty::follow {

// The log of one container as it comes, asked for with timestamps, through connections that break:
// every line is handed out once. Where the server puts no timestamps, lines are counted instead.
class LogTail {
 public:
  // Longer lines are handed out in pieces.
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;
  using OnLine = std::function<void(std::string_view line)>;

  explicit LogTail(OnLine on_line) : on_line_(std::move(on_line)) {}

  // The log is read again from its beginning, or from some time before its break.
  void begin_again();
  void feed(std::string_view bytes);
  // No more will come: hands out an unfinished last line.
  void finish();

 private:
  void take(std::string_view line);

  OnLine on_line_;
  std::string partial_;
  std::string last_stamp_;
  uint64_t told_at_last_ = 0;  // lines handed out with that very timestamp
  uint64_t read_at_last_ = 0;  // of them read again since begin_again()
  uint64_t told_ = 0;          // lines handed out
  uint64_t to_skip_ = 0;       // of lines without timestamps
};

}  // namespace shanty::follow
