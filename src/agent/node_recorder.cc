#include "agent/node_recorder.h"

namespace shanty {

Status NodeRecorder::look(const std::string& path, const Clock& clock) {
  if (ended_ || clock.now() < next_) return {};
  next_ = clock.now() + kEvery;
  const auto sample = sampler_.sample(clock.unix_time_ns());
  if (!sample) return {};
  const Status written = write(path, *sample);
  ended_ = !written.ok() || file_->size_bytes() > kMaxFileBytes;
  return written;
}

Status NodeRecorder::write(const std::string& path, const NodeSample& sample) {
  if (!file_) file_.emplace(TRY(AppendFile::open(path)));
  return file_->append(encode_node_sample(sample) + "\n");
}

}  // namespace shanty
