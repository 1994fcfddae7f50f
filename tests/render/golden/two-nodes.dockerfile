# syntax=docker/dockerfile:1

# A runtime image, not devel: no compiler, some GiB less to pull on each node. Its CUDA may not be
# newer than the nodes' driver allows: CUDA 13 needs driver 580, CUDA 12 needs 525. Pin it by digest
# (name@sha256:...), so that every build and every node has the same.
ARG BASE=pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime
FROM ${BASE}

# Output is not held back, and no .pyc files are written into the layer.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# No OpenMPI and no NCCL from packages: torch brings its own NCCL, and two in one image are how
# nodes come to differ.

# torch and the libraries it was built with stay as the base has them: a requirement that asks for
# others fails here, not at the first all-reduce.
RUN pip freeze | grep -E '^(torch|torchvision|torchaudio|triton|nvidia-)[^ ]*==' >/opt/constraints.txt
COPY requirements.txt /opt/requirements.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --constraint /opt/constraints.txt --requirement /opt/requirements.txt

# opencv-python needs a display's libraries, which are not there; opencv-python-headless does not.
RUN ! pip show --quiet opencv-python 2>/dev/null || \
    { echo "use opencv-python-headless in requirements.txt" >&2; exit 1; }

# shanty comes into the pod by itself, see pod.shanty_image.

# Seen at the build, not on a hundred GPUs.
RUN python3 -c "import torch; print('torch', torch.__version__, 'CUDA', torch.version.cuda)"

# The pods run as this user (pod.user).
RUN useradd --uid 1000 --create-home --shell /bin/bash trainer
USER 1000

# The code is not in the image: it comes by ConfigMap or git (code.from), so that a changed line is
# no new image to pull. Data and checkpoints come by volumes.
WORKDIR /workspace
