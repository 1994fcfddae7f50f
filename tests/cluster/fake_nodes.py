"""Fake nodes with eight GPUs each, and kwok, which plays their kubelets."""

from __future__ import annotations

from .control_plane import ControlPlane

GPU = "nvidia.com/gpu"
GPUS = "8"
NODES_PER_RACK = 2
ANNOTATION = "kwok.x-k8s.io/node"

# A pod of these nodes runs for ever, unless its annotation test/outcome says how it ends.
COMPLETE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ends}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Running]}
    - {key: '.metadata.annotations["test/outcome"]', operator: In, values: [succeed, fail]}
  delay: {durationMilliseconds: 300}
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $failed := eq (index .metadata.annotations "test/outcome") "fail" }}
      conditions:
      - {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: false
        restartCount: 0
        started: false
        state:
          terminated:
            exitCode: {{ if $failed }}1{{ else }}0{{ end }}
            reason: {{ if $failed }}Error{{ else }}Completed{{ end }}
            startedAt: {{ $now | Quote }}
            finishedAt: {{ $now | Quote }}
      {{ end }}
      phase: {{ if $failed }}Failed{{ else }}Succeeded{{ end }}
"""


def node(index: int) -> dict:
    name = f"gpu-{index}"
    resources = {"cpu": "192", "memory": "2Ti", "pods": "110", "ephemeral-storage": "3Ti",
                 GPU: GPUS, "rdma/hca": "8"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "annotations": {ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "zone-a",
                "cloud.example/rack": f"rack-{index // NODES_PER_RACK}",
                "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": GPUS,
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559",
                "nvidia.com/cuda.driver-version.full": "580.95.05",
            },
        },
        "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


class FakeNodes:
    def __init__(self, plane: ControlPlane, count: int):
        self.plane, self.names = plane, []
        stages = plane.directory / "stages.yaml"
        files = plane.built.files("kwok/node") + [
            path for path in plane.built.files("kwok/pod") if path.name != "pod-complete.yaml"
            and path.name != "kustomization.yaml"]
        stages.write_text("\n---\n".join([*(path.read_text() for path in files), COMPLETE]))
        plane.start(
            "kwok", "kwok", f"--kubeconfig={plane.kubeconfig}", f"--config={stages}",
            f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
            "--node-lease-duration-seconds=40", "--cidr=10.246.0.0/16", "--node-ip=10.245.0.1")
        for index in range(count):
            plane.api.create(node(index))
            self.names.append(f"gpu-{index}")

    def remove(self) -> None:
        self.plane.components.pop("kwok").stop()
        for name in self.names:
            self.plane.api.delete("v1", "Node", name)
            # The next kwok would wait for the end of this one's lease.
            self.plane.api.delete("coordination.k8s.io/v1", "Lease", name, "kube-node-lease")
