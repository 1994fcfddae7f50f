#pragma once

#include <string_view>

#include <termios.h>

#include "base/clock.h"
#include "os/fd.h"

namespace shanty {

// A picture that is drawn again and again on the terminal's second screen; what was on it before
// is there again at the end. One at a time.
class FullScreen {
 public:
  FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  ~FullScreen();

  void draw(std::string_view text);
  // Waits. False: the user asked to leave (q, Ctrl-C, a signal).
  bool wait(Duration timeout);
  // Rows of the terminal.
  static size_t rows();

 private:
  Fd signals_;
  bool raw_ = false;
  termios saved_{};
};

}  // namespace shanty
