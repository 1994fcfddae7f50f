#include "net/token.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/hash.h"
#include "base/random.h"
#include "os/fd.h"
#include "os/files.h"

namespace shanty::net {
namespace {

constexpr size_t kTokenRandomBytes = 32;
constexpr time_t kUnusedLimitSeconds = 7 * 24 * 3600;
constexpr size_t kMaxReadablePartBytes = 80;

Status check_token(const std::string& token, const std::string& where) {
  const auto visible = [](unsigned char c) { return c > ' ' && c < 0x7f; };
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return Error{where + " holds " + std::to_string(token.size()) + " characters: expected " +
                 std::to_string(kMinTokenBytes) + " to " + std::to_string(kMaxTokenBytes)};
  }
  if (!std::ranges::all_of(token, visible)) {
    return Error{where +
                 " holds a space, a control or a non-ASCII character: expected a secret "
                 "of visible ASCII characters, such as `openssl rand -hex 32` prints"};
  }
  return {};
}

// A secret that somebody else put there, such as Kubernetes' mount of a Secret: its owner and mode
// are theirs to choose.
Result<std::string> read_given_file(const std::string& path) {
  const std::string where = "the file of SHANTY_TOKEN_FILE, " + path + ",";
  std::string token = TRY(read_file(path, kMaxTokenBytes + 2).context("SHANTY_TOKEN_FILE"));
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  TRY_STATUS(check_token(token, where));
  return token;
}

// Readable, and different for different queries.
std::string file_name(const TokenQuery& query) {
  std::string host = query.endpoint_host;
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string key = host + ":" + std::to_string(query.port) + ":" + query.rdzv_id;
  std::string readable = key.substr(0, kMaxReadablePartBytes);
  for (char& c : readable) {
    const bool safe = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    if (!safe) c = '_';
  }
  return readable + "-" + hex(sha256(key)).substr(0, 16);
}

Status check_private(const struct stat& info, const std::string& path, mode_t forbidden) {
  if (info.st_uid != geteuid()) {
    return Error{path + " belongs to another user (uid " + std::to_string(info.st_uid) +
                 "): remove it, or set SHANTY_TOKEN"};
  }
  if ((info.st_mode & forbidden) != 0) {
    return Error{path + " is open to other users: make it private with chmod go-rwx, or remove it"};
  }
  return {};
}

Status prepare_directory(const std::string& state_dir, const std::string& path) {
  TRY_STATUS(make_directories(state_dir));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error("cannot create " + path);
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return errno_error("cannot look at " + path);
  if (!S_ISDIR(info.st_mode)) return Error{path + " is not a directory: remove it"};
  return check_private(info, path, S_IWGRP | S_IWOTH);
}

// Reads the token and marks it as used now. The file is checked through the open descriptor, so
// what is checked is what is read.
Result<std::string> read_token(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return errno_error("cannot open the token file " + path);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return errno_error("cannot look at " + path);
  if (!S_ISREG(info.st_mode)) return Error{path + " is not a regular file: remove it"};
  TRY_STATUS(check_private(info, path, S_IRWXG | S_IRWXO));
  char buffer[kMaxTokenBytes + 1];
  const ssize_t size = read(file.get(), buffer, sizeof buffer);
  if (size < 0) return errno_error("cannot read the token file " + path);
  std::string token(buffer, static_cast<size_t>(size));
  TRY_STATUS(check_token(token, "the token file " + path));
  futimens(file.get(), nullptr);
  return token;
}

// A complete file appears under its name at once, also over NFS, so a racing reader never sees
// half a token and the first link wins.
Status create_token(const std::string& path) {
  const std::string draft = path + ".draft-" + hex(secure_random_bytes(8));
  {
    const Fd file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return errno_error("cannot create the token file " + draft);
    const Status written = write_all(file.get(), hex(secure_random_bytes(kTokenRandomBytes)));
    if (!written.ok()) {
      unlink(draft.c_str());
      return written;
    }
  }
  int failed = link(draft.c_str(), path.c_str()) != 0 ? errno : 0;
  if (failed != 0 && failed != EEXIST) {  // a file system without hard links
    failed = renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0
                 ? errno
                 : 0;
  }
  unlink(draft.c_str());
  if (failed != 0 && failed != EEXIST) return errno_error("cannot create " + path, failed);
  return {};
}

void remove_unused(const std::string& directory, const std::string& keep) {
  const auto names = list_directory(directory);
  if (!names.ok()) return;
  const time_t now = time(nullptr);
  for (const std::string& name : *names) {
    const std::string path = directory + "/" + name;
    struct stat info = {};
    if (name == keep || lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (now - info.st_mtime > kUnusedLimitSeconds) unlink(path.c_str());
  }
}

}  // namespace

void touch_token(const TokenQuery& query) {
  if (std::getenv("SHANTY_TOKEN") != nullptr) return;
  if (std::getenv("SHANTY_TOKEN_FILE") != nullptr) return;
  const std::string path = query.state_dir + "/tokens/" + file_name(query);
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

Result<std::string> job_token(const TokenQuery& query) {
  if (const char* given = std::getenv("SHANTY_TOKEN"); given != nullptr) {
    TRY_STATUS(check_token(given, "SHANTY_TOKEN"));
    return std::string(given);
  }
  if (const char* path = std::getenv("SHANTY_TOKEN_FILE"); path != nullptr) {
    return read_given_file(path);
  }
  const std::string directory = query.state_dir + "/tokens";
  TRY_STATUS(prepare_directory(query.state_dir, directory));
  const std::string name = file_name(query);
  remove_unused(directory, name);
  const std::string path = directory + "/" + name;
  if (access(path.c_str(), F_OK) != 0) TRY_STATUS(create_token(path));
  return read_token(path);
}

}  // namespace shanty::net
