#include "ckpt/background.h"

#include <sys/resource.h>
#include <unistd.h>

namespace shanty::ckpt {
namespace {

constexpr int kNice = 5;

}  // namespace

// Linux keeps this value per thread. A failure changes nothing but the speed.
void work_in_background() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice); }

}  // namespace shanty::ckpt
