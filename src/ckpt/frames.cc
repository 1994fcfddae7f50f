#include "ckpt/frames.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace shanty::ckpt {
namespace {

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

}  // namespace

Result<std::optional<std::string>> receive_frame(int socket) {
  std::array<unsigned char, 4> head{};
  if (!TRY(receive_all(socket, reinterpret_cast<char*>(head.data()), head.size()))) {
    return std::optional<std::string>();
  }
  const size_t size =
      head[0] | (uint32_t{head[1]} << 8) | (uint32_t{head[2]} << 16) | (uint32_t{head[3]} << 24);
  if (size > kMaxFrameBytes) {
    return Error{fmt::format("hearing the trainer: a frame of {} bytes is too long", size)};
  }
  std::string body(size, '\0');
  if (size > 0 && !TRY(receive_all(socket, body.data(), size))) {
    return Error{"hearing the trainer: it hung up within a frame"};
  }
  return std::optional<std::string>(std::move(body));
}

Status send_frame(int socket, std::string_view body, int fd) {
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>((body.size() >> (8 * i)) & 0xFF);
  bytes += body;
  size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{bytes.data() + sent, bytes.size() - sent};
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

}  // namespace shanty::ckpt
