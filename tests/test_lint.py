"""shanty lint, driven as a program."""

import json
import os
import pty
import stat
import subprocess
from pathlib import Path

import pytest

from conftest import LIMIT_S, ROOT, SHANTY, shanty

GOOD = ROOT / "src/lint/testdata/job.yaml"
BAD = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: demo
spec:
  ttlSecondsAfterFinished: 60
  template:
    spec:
      restartPolicy: Never
      hostNetwork: true
      containers:
        - name: train
          image: registry.local/train:1
          command: [torchrun, --nproc-per-node=8, train.py]
          env:
            - name: MASTER_PORT
              value: 29500
            - {name: HF_TOKEN, value: hf_not_to_be_seen}
          resources:
            limits: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
"""


@pytest.fixture
def bad(tmp_path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


def findings(*args, **kwargs) -> list[dict]:
    return json.loads(shanty("lint", "--json", *args, **kwargs).stdout)["findings"]


def test_a_good_file_is_quiet_and_ends_with_0():
    result = shanty("lint", GOOD)
    assert (result.returncode, result.stdout) == (0, "")
    assert "nothing to say about 1 file" in result.stderr


def test_a_bad_file_shows_line_caret_why_and_fix(bad):
    result = shanty("lint", bad)
    assert result.returncode == 1
    assert f"{bad}:10:7: warning: hostNetwork without dnsPolicy" in result.stdout
    assert "[NET001]" in result.stdout
    assert "\n          hostNetwork: true\n          ^\n" in result.stdout
    assert "why:  " in result.stdout and "fix:  " in result.stdout
    assert "--fix mends" in result.stderr


def test_json_has_what_is_promised(bad):
    found = findings(bad)
    assert {f["code"] for f in found} == {"NET001", "POD001", "RDZV006", "SEC003", "SHM001"}
    for finding in found:
        assert finding["severity"] in ("error", "warning", "info")
        assert finding["file"] == str(bad) and finding["line"] > 0 and finding["column"] > 0
        assert finding["message"] and finding["why"] and finding["fix"]
    port = next(f for f in found if f["code"] == "POD001")
    assert (port["severity"], port["line"], port["column"]) == ("error", 17, 22)


def test_sarif_has_rules_places_and_fixes(bad):
    result = shanty("lint", "--format", "sarif", bad)
    log = json.loads(result.stdout)
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for item in run["results"]:
        assert rules[item["ruleIndex"]]["id"] == item["ruleId"]
        region = item["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] > 0 and region["startColumn"] > 0
        assert item["level"] in ("error", "warning", "note")
    fix = next(r for r in run["results"] if r["ruleId"] == "POD001")["fixes"][0]
    replacement = fix["artifactChanges"][0]["replacements"][0]
    start = replacement["deletedRegion"]["charOffset"]
    assert BAD[start : start + replacement["deletedRegion"]["charLength"]] == "29500"
    assert replacement["insertedContent"]["text"] == '"29500"'


def test_github_gets_annotations(bad):
    lines = shanty("lint", "--format", "github", bad).stdout.splitlines()
    assert any(line.startswith("::error file=") and "POD001" in line for line in lines)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


def test_no_format_shows_a_secret(bad):
    for form in ("text", "json", "sarif", "github"):
        result = shanty("lint", "--format", form, bad)
        assert "SEC003" in result.stdout
        assert "not_to_be_seen" not in result.stdout + result.stderr


def test_fix_changes_only_what_it_says_and_nothing_twice(bad):
    bad.chmod(0o640)
    result = shanty("lint", "--fix", bad)
    text = bad.read_text()
    assert 'value: "29500"' in text
    assert "      dnsPolicy: ClusterFirstWithHostNet\n      hostNetwork: true\n" in text
    assert "mountPath: /dev/shm" in text and "medium: Memory" in text
    assert set(BAD.splitlines()) - set(text.splitlines()) == {"              value: 29500"}
    assert stat.S_IMODE(bad.stat().st_mode) == 0o640
    for code in ("NET001", "POD001", "SHM001"):
        assert f"[{code}]" in result.stderr and f"[{code}]" not in result.stdout
    again = shanty("lint", "--fix", bad)
    assert bad.read_text() == text
    assert "fixed" not in again.stderr
    assert again.returncode == 1  # the secret is not for a program to move


def test_fix_goes_through_a_link_to_the_file(bad, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to(bad)
    shanty("lint", "--fix", link)
    assert link.is_symlink() and "ClusterFirstWithHostNet" in bad.read_text()


def test_fix_says_where_it_may_not_write(bad, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    result = shanty("lint", "--fix", bad)
    tmp_path.chmod(0o700)
    assert result.returncode == 3 and str(bad) in result.stderr
    assert bad.read_text() == BAD


def test_fix_leaves_a_file_that_is_read_only(bad):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    bad.chmod(0o440)
    result = shanty("lint", "--fix", bad)
    assert result.returncode == 3 and str(bad) in result.stderr
    assert bad.read_text() == BAD


def test_a_file_in_utf16_is_told_from_nothing(bad, tmp_path):
    path = tmp_path / "powershell.yaml"
    path.write_text(BAD, encoding="utf-16")
    result = shanty("lint", path)
    assert result.returncode == 2 and "UTF-16" in result.stderr
    assert "left out" in shanty("lint", tmp_path).stderr


def test_comments_take_findings_away(bad):
    text = BAD.replace("hostNetwork: true", "hostNetwork: true  # shanty: ignore NET001 no names used")
    text = text.replace(
        "      containers:", "      # shanty: ignore SHM001, RDZV006 one GPU server\n      containers:"
    )
    bad.write_text(text)
    assert {f["code"] for f in findings(bad)} == {"POD001", "SEC003", "SHM001", "RDZV006"}
    above = BAD.replace("        - name: train", "        # shanty: ignore SHM001 no loader\n        - name: train")
    bad.write_text(above)
    assert "SHM001" not in {f["code"] for f in findings(bad)}


def test_a_comment_without_a_reason_is_remarked(bad):
    bad.write_text(BAD.replace("hostNetwork: true", "hostNetwork: true  # shanty: ignore NET001"))
    found = {f["code"]: f for f in findings(bad)}
    assert "NET001" not in found
    assert found["RUN001"]["severity"] == "info"
    bad.write_text(BAD.replace("hostNetwork: true", "hostNetwork: true  # shanty: ignore NET999 why"))
    assert any("there is no cause" in f["message"] for f in findings(bad))


def test_standard_input_is_read(bad):
    found = findings("-", input=BAD)
    assert {f["file"] for f in found} == {"<stdin>"}
    assert shanty("lint", "-", input="FROM pytorch/pytorch\n").returncode == 1
    assert shanty("lint", "-", input="hello\n").returncode == 2
    refused = shanty("lint", "--fix", "-", input=BAD)
    assert refused.returncode == 2 and "standard input" in refused.stderr


def test_directories_are_walked_without_what_is_not_ours(tmp_path):
    for name in ("a/job.yaml", ".git/job.yaml", "node_modules/job.yaml", "vendor/job.yaml",
                 "a/b/Dockerfile", "values.yaml", "a/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("FROM pytorch/pytorch:latest\n" if "Docker" in name else
                        "replicas: 2\n" if "values" in name else BAD)
    files = {str(Path(f["file"]).relative_to(tmp_path)) for f in findings(tmp_path)}
    assert files == {"a/job.yaml", "a/b/Dockerfile"}


def test_objects_are_seen_together(tmp_path):
    job = (ROOT / "src/lint/testdata/pytorchjob.yaml").read_text()
    claim, _, rest = job.partition("---\n")
    (tmp_path / "claim.yaml").write_text(claim.replace("ReadWriteMany", "ReadWriteOnce"))
    (tmp_path / "job.yaml").write_text(rest)
    assert [f["code"] for f in findings(tmp_path)] == ["STO001"]
    assert findings(tmp_path / "job.yaml") == []


def test_patches_of_kustomize_miss_nothing(tmp_path):
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [job.yaml]\npatches:\n  - path: patch.yaml\nimages:\n"
        "  - {name: registry.local/ml/train, newTag: 2.4.0}\n"
    )
    (tmp_path / "job.yaml").write_text(GOOD.read_text().replace("train:2.3.0", "train"))
    (tmp_path / "patch.yaml").write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bert}\nspec:\n  template:\n    spec:\n"
        "      containers:\n        - name: train\n          image: registry.local/ml/train\n"
        "          resources: {limits: {nvidia.com/gpu: 8}}\n"
    )
    assert findings(tmp_path) == []


def test_templates_are_remarked_once(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("apiVersion: v1\nkind: Pod\n{{- if .Values.x }}\nspec: {}\n{{ end }}\n")
    result = shanty("lint", tmp_path, "--json")
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["code"] == "RUN003" and "1 other file" in finding["message"]
    assert "helm template" in finding["fix"]
    assert result.returncode == 0


def test_scripts_in_manifests_are_linted_in_place(tmp_path):
    script = (
        "import torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "rank = dist.get_rank()\ntorch.save({}, 'x.pt')\n"
    )
    (tmp_path / "train.py").write_text(script)
    alone = [(f["code"], f["line"]) for f in findings(tmp_path / "train.py")]
    assert alone
    text = "".join(f"    {line}\n" for line in script.splitlines())
    (tmp_path / "map.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: code}}\ndata:\n  train.py: |\n{text}"
    )
    inside = [(f["code"], f["line"] - 5) for f in findings(tmp_path / "map.yaml")]
    assert inside == alone


@pytest.mark.parametrize(
    "args, message",
    [
        (["nowhere.yaml"], "cannot read nowhere.yaml"),
        (["--format", "xml", "."], "xml"),
        ([], "path"),
        (["--severity", "loud", "."], "loud"),
    ],
)
def test_wrong_use_ends_with_2(args, message, tmp_path):
    result = shanty("lint", *args, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr


def test_nothing_to_lint_is_said(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    result = shanty("lint", tmp_path)
    assert result.returncode == 2 and "nothing to lint" in result.stderr
    result = shanty("lint", tmp_path / "notes.txt")
    assert result.returncode == 2 and "notes.txt" in result.stderr


def test_a_named_file_is_known_by_what_it_says(tmp_path):
    path = tmp_path / "job.yaml-template"
    path.write_text(BAD)
    assert "NET001" in {f["code"] for f in findings(path)}


def test_hostile_bytes_are_a_finding_or_nothing(tmp_path):
    cases = {
        "nul.yaml": b"apiVersion: v1\nkind: Pod\n\0",
        "utf8.yaml": b"apiVersion: v1\nkind: Pod\nx: \xff\n",
        "bomb.yaml": b"apiVersion: v1\nkind: Pod\na: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9))
                   for i in range(12)),
        "deep.yaml": b"apiVersion: v1\nkind: Pod\nx: " + b"[" * 5000,
        "Dockerfile": b"FROM a\nRUN \\\n\\\n\xff\xfe <<EOF\n",
    }
    for name, text in cases.items():
        (tmp_path / name).write_bytes(text)
    result = shanty("lint", "--json", tmp_path)
    assert result.returncode == 1
    assert {Path(f["file"]).name for f in json.loads(result.stdout)["findings"]} >= {
        "nul.yaml", "utf8.yaml", "bomb.yaml", "deep.yaml"}


def test_severity_hides_and_the_exit_code_stays(bad):
    codes = {f["severity"] for f in findings("--severity", "error", bad)}
    assert codes == {"error"}
    text = GOOD.read_text().replace("  ttlSecondsAfterFinished: 86400\n", "")
    bad.write_text(text)
    assert shanty("lint", bad).returncode == 0
    assert findings("--severity", "warning", bad) == []


def test_a_narrow_terminal_is_kept_to(bad):
    leader, follower = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = subprocess.Popen([SHANTY, "lint", bad], stdout=follower, stderr=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
    os.close(follower)
    output = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    process.wait(timeout=LIMIT_S)
    wrapped = [line for line in output.decode().replace("\r", "").splitlines()
               if line.startswith(("    why:", "    fix:", "          "))]
    assert wrapped and all(len(line) <= 60 for line in wrapped if "train" not in line)


def test_the_table_in_the_docs_is_that_of_the_program():
    listed = {}
    for line in (ROOT / "docs/lint.md").read_text().splitlines():
        if line.startswith("| ") and line[2:5].isupper():
            code, severity, title = (cell.strip() for cell in line.strip("|").split("|"))
            listed[code] = (severity, title)
    pages = {}
    for path in (ROOT / "src/causes/pages/en").glob("*.md"):
        head, severity = path.read_text().splitlines()[:2]
        code, _, title = head.removeprefix("# ").partition(": ")
        if int(code[-3:]) < 100:
            pages[code] = (severity.removeprefix("severity: "), title)
    assert len(listed) >= 60
    wrong = {code: row for code, row in listed.items() if pages.get(code) != row}
    assert not wrong
