#pragma once

#include <string_view>

namespace shanty {

// Writes to stdout and stderr of verbs whose reader may go away (`| head`): that is no failure,
// only the end. A full disk is one.
class Output {
 public:
  // False once the reader is gone or a write failed; then nothing more is written there.
  bool write(int fd, std::string_view bytes);
  // Notices a reader that went away while nothing is written.
  bool reader_gone();

  // Whether a write of this process failed though its reader was there.
  static bool lost_some();

 private:
  bool gone_ = false;
};

}  // namespace shanty
