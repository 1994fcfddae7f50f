// The recipe of an image for the job: small, and with one torch, one CUDA and one NCCL.
#include <fmt/format.h>

#include "render/gang.h"
#include "render/target.h"

namespace shanty {
namespace {

// The image of Kubeflow Trainer 2.3's own runtime for torch.
constexpr const char* kBase = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime";

std::string base() {
  return fmt::format(R"(# syntax=docker/dockerfile:1

# A runtime image, not devel: no compiler, some GiB less to pull on each node. Its CUDA may not be
# newer than the nodes' driver allows: CUDA 13 needs driver 580, CUDA 12 needs 525. Pin it by digest
# (name@sha256:...), so that every build and every node has the same.
ARG BASE={}
FROM ${{BASE}}

# Output is not held back, and no .pyc files are written into the layer.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# No OpenMPI and no NCCL from packages: torch brings its own NCCL, and two in one image are how
# nodes come to differ.
)",
                     kBase);
}

constexpr std::string_view kRequirements = R"(
# torch and the libraries it was built with stay as the base has them: a requirement that asks for
# others fails here, not at the first all-reduce.
RUN pip freeze | grep -E '^(torch|torchvision|torchaudio|triton|nvidia-)[^ ]*==' >/opt/constraints.txt
COPY requirements.txt /opt/requirements.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --constraint /opt/constraints.txt --requirement /opt/requirements.txt

# opencv-python needs a display's libraries, which are not there; opencv-python-headless does not.
RUN ! pip show --quiet opencv-python 2>/dev/null || \
    { echo "use opencv-python-headless in requirements.txt" >&2; exit 1; }
)";

std::string user(const RenderContext& c) {
  if (c.job.pod.user == 0) return "";
  return fmt::format(R"(
# The pods run as this user (pod.user).
RUN useradd --uid {0} --create-home --shell /bin/bash trainer
USER {0}
)",
                     c.job.pod.user);
}

std::string code(const RenderContext& c) {
  const std::string& wanted = c.job.run.working_dir;
  const std::string dir = wanted.starts_with('/') ? wanted : "/workspace";
  if (c.job.code.from != CodeSource::kImage) {
    return fmt::format(R"(
# The code is not in the image: it comes by ConfigMap or git (code.from), so that a changed line is
# no new image to pull. Data and checkpoints come by volumes.
WORKDIR {}
)",
                       dir);
  }
  return fmt::format(R"(
# The code last: a changed line rebuilds only this layer. Keep data, checkpoints and .git out of it
# by .dockerignore.
WORKDIR {}
COPY . .
)",
                     dir);
}

std::string shanty(const RenderContext& c) {
  if (c.job.pod.shanty_image == "none") {
    return "\n# pod.shanty_image is none, so the image brings shanty itself.\n"
           "RUN --mount=type=cache,target=/root/.cache/pip pip install shanty==" SHANTY_VERSION
           "\n";
  }
  return "\n# shanty comes into the pod by itself, see pod.shanty_image.\n";
}

constexpr std::string_view kCheck = R"RUN(
# Seen at the build, not on a hundred GPUs.
RUN python3 -c "import torch; print('torch', torch.__version__, 'CUDA', torch.version.cuda)"
)RUN";

Result<std::vector<Piece>> render(const RenderContext& c) {
  const std::string text =
      base() + std::string(kRequirements) + shanty(c) + std::string(kCheck) + user(c) + code(c);
  return std::vector<Piece>{{.stem = {}, .object = {}, .text = text, .file_name = "Dockerfile"}};
}

}  // namespace

extern const RenderTarget kDockerfileTarget = {.name = "dockerfile",
                                               .group = "",
                                               .kind = "",
                                               .plural = "",
                                               .gangs = no_gang,
                                               .render = render};

}  // namespace shanty
