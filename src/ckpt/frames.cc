#include "ckpt/frames.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace shanty::ckpt {
namespace {

constexpr uint32_t kMore = uint32_t{1} << 31;  // in a frame's length: the message goes on

// False at the end of the stream before the first byte.
Result<bool> receive_all(int socket, char* out, size_t size) {
  size_t got = 0;
  while (got < size) {
    const ssize_t n = ::recv(socket, out + got, size - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("hearing the trainer");
    if (n == 0 && got == 0) return false;
    if (n == 0) return Error{"hearing the trainer: it hung up within a frame"};
    got += static_cast<size_t>(n);
  }
  return true;
}

// Appends the frame to `message`. False: it is not the last one.
Result<bool> receive_rest(int socket, const std::array<unsigned char, 4>& head,
                          std::string& message) {
  const uint32_t word =
      head[0] | (uint32_t{head[1]} << 8) | (uint32_t{head[2]} << 16) | (uint32_t{head[3]} << 24);
  const size_t size = word & ~kMore;
  if (size > kMaxFrameBytes || size > kMaxMessageBytes - message.size()) {
    return Error{fmt::format("hearing the trainer: a frame of {} bytes, after {}, is too long",
                             size, message.size())};
  }
  const size_t before = message.size();
  message.resize(before + size);
  if (size > 0 && !TRY(receive_all(socket, message.data() + before, size))) {
    return Error{"hearing the trainer: it hung up within a frame"};
  }
  return (word & kMore) == 0;
}

Status send_all(int socket, std::string_view bytes, int fd) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{const_cast<char*>(bytes.data()) + sent, bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (fd >= 0 && sent == 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    const ssize_t n = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("answering the trainer");
    sent += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Result<std::optional<std::string>> receive_message(int socket) {
  std::string message;
  std::array<unsigned char, 4> head{};
  for (bool first = true;; first = false) {
    if (!TRY(receive_all(socket, reinterpret_cast<char*>(head.data()), head.size()))) {
      if (first) return std::optional<std::string>();
      return Error{"hearing the trainer: it hung up between frames"};
    }
    if (TRY(receive_rest(socket, head, message))) break;
  }
  return std::optional<std::string>(std::move(message));
}

Status send_message(int socket, std::string_view body, int fd, size_t frame_bytes) {
  if (body.size() > kMaxMessageBytes) {
    return Error{fmt::format("answering the trainer: {} bytes are too long", body.size())};
  }
  do {
    const std::string_view part = body.substr(0, frame_bytes);
    body.remove_prefix(part.size());
    const uint32_t word = static_cast<uint32_t>(part.size()) | (body.empty() ? 0 : kMore);
    std::string head(4, '\0');
    for (size_t i = 0; i < 4; ++i) head[i] = static_cast<char>((word >> (8 * i)) & 0xFF);
    TRY_STATUS(send_all(socket, head, std::exchange(fd, -1)));
    TRY_STATUS(send_all(socket, part, -1));
  } while (!body.empty());
  return {};
}

}  // namespace shanty::ckpt
