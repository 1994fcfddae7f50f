#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causes/catalogue.h"
#include "lint/fix.h"
#include "lint/lint.h"
#include "lint/rule.h"

namespace shanty::lint {
namespace {

using testing::Contains;
using testing::IsEmpty;

const std::filesystem::path kTestdata = std::filesystem::path(__FILE__).parent_path() / "testdata";

std::string read(const std::string& name) {
  std::ifstream file(kTestdata / name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

SourceKind kind_of_fixture(const std::string& name) {
  if (name == "Dockerfile") return SourceKind::kDockerfile;
  return name == "shanty.yaml" ? SourceKind::kJobFile : SourceKind::kManifest;
}

std::vector<std::string> codes_of(const std::vector<Finding>& findings) {
  std::vector<std::string> codes;
  for (const Finding& finding : findings) codes.push_back(finding.code);
  return codes;
}

std::string messages_of(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings)
    out += f.code + " " + std::to_string(f.line) + ": " + f.message + "\n";
  return out;
}

// A change that spoils a good file, and the code that must come of it. `to` takes the place of the
// first `from`; the line of the finding is that of `at` in the spoilt text where it is given.
struct Spoilt {
  std::string code;
  std::string file;
  std::string from;
  std::string to;
  std::string at = "";
  std::string also_from = "";  // a second change
  std::string also_to = "";
};

std::string replace_first(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "nowhere: " << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string spoil(const Spoilt& row) {
  const std::string text = replace_first(read(row.file), row.from, row.to);
  return row.also_from.empty() ? text : replace_first(text, row.also_from, row.also_to);
}

int line_of(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n')) + 1;
}

const std::vector<Spoilt>& spoilt_files() {
  static const std::vector<Spoilt> rows = {
#include "lint/testdata/spoilt.inc"
  };
  return rows;
}

TEST(Rules, AreQuietOnGoodFiles) {
  for (const auto& entry : std::filesystem::directory_iterator(kTestdata)) {
    const std::string name = entry.path().filename();
    if (name == "spoilt.inc") continue;
    const std::vector<Source> sources = {{name, read(name), kind_of_fixture(name)}};
    EXPECT_EQ(messages_of(lint(sources)), "") << name;
  }
}

TEST(Rules, FindWhatIsSpoilt) {
  for (const Spoilt& row : spoilt_files()) {
    const std::vector<Source> sources = {{row.file, spoil(row), kind_of_fixture(row.file)}};
    const std::vector<Finding> findings = lint(sources);
    EXPECT_THAT(codes_of(findings), Contains(row.code))
        << row.file << ": " << row.from << " -> " << row.to << "\n"
        << messages_of(findings);
    if (row.at.empty()) continue;
    const int line = line_of(sources[0].text, row.at);
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(),
                            [&](const Finding& f) { return f.code == row.code && f.line == line; }))
        << row.code << " should stand in line " << line << "\n"
        << messages_of(findings);
  }
}

TEST(Rules, AreEachTestedAndHaveAPage) {
  std::set<std::string> tested;
  for (const Spoilt& row : spoilt_files()) tested.insert(row.code);
  for (const auto area : all_rules()) {
    for (const Rule& rule : area) {
      std::istringstream codes{std::string(rule.codes)};
      for (std::string code; codes >> code;) {
        EXPECT_TRUE(tested.count(code)) << "no file is spoilt for " << code;
        EXPECT_NE(find_cause(code), nullptr) << code;
        EXPECT_NE(find_cause(code, Language::kChinese), nullptr) << code;
      }
    }
  }
}

// Scripts inside manifests go through the rules for scripts, whose codes begin at 020.
bool is_of_scripts(const std::string& code) { return code[code.size() - 2] >= '2'; }

TEST(Rules, BearTheCodesThatTheTableSays) {
  std::set<std::string> known = {"RUN001", "RUN002", "RUN003"};
  for (const auto area : all_rules()) {
    for (const Rule& rule : area) {
      std::istringstream codes{std::string(rule.codes)};
      for (std::string code; codes >> code;) known.insert(code);
    }
  }
  for (const Spoilt& row : spoilt_files()) {
    for (const Finding& finding :
         lint({{Source{row.file, spoil(row), kind_of_fixture(row.file)}}})) {
      EXPECT_TRUE(known.count(finding.code) || is_of_scripts(finding.code)) << finding.code;
    }
  }
}

// One word of a command is one finding, though a rule for manifests and one for scripts read it.
TEST(Rules, SayOnceWhatAManifestAndItsScriptShow) {
  const std::string address = "--master-addr=llama-workers-0-0.llama ";
  const std::string text = replace_first(read("jobset.yaml"), address, "--master-addr=10.1.2.3 ");
  const std::vector<std::string> codes =
      codes_of(lint({{Source{"jobset.yaml", text, SourceKind::kManifest}}}));
  EXPECT_THAT(codes, Contains("RDZV001"));
  EXPECT_THAT(codes, testing::Not(Contains("RUN024")));
}

TEST(Rules, TakeNoMinimumOfVolcanoForAllPods) {
  const std::string text =
      replace_first(read("volcano.yaml"), "minAvailable: 3", "minAvailable: 0");
  EXPECT_EQ(messages_of(lint({{Source{"volcano.yaml", text, SourceKind::kManifest}}})), "");
}

TEST(Rules, LetAClusterWithoutGpusPlayThem) {
  const std::string told = replace_first(read("rayjob.yaml"), "num-gpus: \"0\"", "num-gpus: \"2\"");
  const auto codes = [](const std::string& text) {
    return codes_of(lint({{Source{"rayjob.yaml", text, SourceKind::kManifest}}}));
  };
  EXPECT_THAT(codes(told), Contains("GPU011"));
  EXPECT_THAT(codes(replace_first(told, ", nvidia.com/gpu: 4", "")), IsEmpty());
}

TEST(Rules, KnowWhichTorchPipTakes) {
  const std::string good = read("Dockerfile");
  const std::string install = "torch==2.9.1 --index-url https://download.pytorch.org/whl/cu128";
  const std::string base = "nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04";
  const auto codes = [](const std::string& text) {
    return codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}}));
  };
  const std::string bare = replace_first(good, install, "torch torchvision");
  EXPECT_THAT(codes(bare), Contains("VER001"));
  const std::string kept = replace_first(bare, base, "nvcr.io/nvidia/pytorch:25.06-py3");
  EXPECT_THAT(codes(kept), IsEmpty());
  const std::string upgraded = replace_first(kept, "torch torchvision", "-U torch torchvision");
  EXPECT_THAT(codes(upgraded), Contains("VER002"));
  EXPECT_THAT(codes(replace_first(good, install, "torch --index-url $INDEX_URL")), IsEmpty());
  const std::string official = replace_first(good, base, "pytorch/pytorch:2.4.0-cuda12.4-runtime");
  for (const std::string met : {"torch==2.4.0", "torch~=2.4", "'torch>=2.3,<2.5'", "torch==2.4.*"})
    EXPECT_THAT(codes(replace_first(official, install, met)), IsEmpty()) << met;
  for (const std::string other : {"torch==2.5.1", "'torch>=2.6'", "torch~=2.4.1", "torch==2.3.*"})
    EXPECT_THAT(codes(replace_first(official, install, other)), Contains("VER002")) << other;
}

TEST(Rules, KnowADirectoryThatHoldsTheRequirements) {
  const auto codes = [](std::string_view lines) {
    const std::string text = "FROM nvcr.io/nvidia/pytorch:24.01-py3\n" + std::string(lines);
    return codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}}));
  };
  const std::string install = "RUN pip install --no-cache-dir -r requirements.txt\n";
  EXPECT_THAT(codes("ADD code/mnist /opt/mnist\nWORKDIR /opt/mnist\n" + install),
              Contains("IMG008"));
  EXPECT_THAT(codes("COPY requirements.txt /opt/\nADD code/mnist /opt/mnist\n" + install),
              IsEmpty());
  EXPECT_THAT(codes("COPY wheels /opt/wheels\nRUN pip install --no-cache-dir einops\n"), IsEmpty());
}

TEST(Rules, TellAnArgumentThatIsASecretFromOthers) {
  const auto codes = [](std::string_view lines) {
    const std::string text = "FROM nvcr.io/nvidia/pytorch:24.01-py3\n" + std::string(lines);
    return codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}}));
  };
  EXPECT_THAT(codes("ARG HF_TOKEN=\"\"\nENV HF_TOKEN=${HF_TOKEN}\n"), Contains("SEC003"));
  EXPECT_THAT(codes("ARG EOS_TOKEN\nARG TORCH_VERSION\n"), IsEmpty());
  EXPECT_THAT(
      codes("FROM python:3.12 AS fetch\nARG HF_TOKEN\nFROM scratch\nCOPY --from=fetch /m /m\n"),
      IsEmpty());
  EXPECT_THAT(codes("COPY .env.example /app/\n"), IsEmpty());
}

TEST(Rules, KnowFilesOfSecretsByTheirNames) {
  const auto codes = [](std::string_view file) {
    const std::string text =
        fmt::format("FROM nvcr.io/nvidia/pytorch:24.01-py3\nCOPY {} /root/\n", file);
    return codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}}));
  };
  for (const std::string_view file :
       {".netrc", "home/.netrc", "kaggle.json", "ssh/id_ed25519", "tls/server.key", ".kube/config"})
    EXPECT_THAT(codes(file), Contains("SEC003")) << file;
  for (const std::string_view file : {"netrc.md", "ca.pem", "keys.py", "id_rsa.pub", "monkey"})
    EXPECT_THAT(codes(file), IsEmpty()) << file;
}

// What a Job without pods may still say, and what only another controller fills in.
TEST(Rules, LetAJobNameItsPodsElsewhere) {
  const auto codes = [](const std::string& file, const std::string& from, const std::string& to) {
    return codes_of(
        lint({{Source{file, replace_first(read(file), from, to), SourceKind::kManifest}}}));
  };
  const std::string cluster = read("rayjob.yaml");
  const std::string whole = cluster.substr(cluster.find("  rayClusterSpec:"));
  EXPECT_THAT(codes("rayjob.yaml", whole, "  clusterSelector: {ray.io/cluster: shared}\n"),
              testing::Not(Contains("POD008")));
  const std::string sets = read("jobset.yaml");
  EXPECT_THAT(codes("jobset.yaml", sets.substr(sets.find("  replicatedJobs:")),
                    "  replicatedJobs: \"{{ .Values.jobs }}\"\n"),
              testing::Not(Contains("POD008")));
}

TEST(Rules, KnowWhatBringsTheLibrariesOfADesktop) {
  const auto codes = [](std::string_view packages) {
    const std::string text = fmt::format(
        "FROM nvcr.io/nvidia/pytorch:24.01-py3\nRUN apt-get install -y {}\n"
        "RUN pip install --no-cache-dir opencv-python\n",
        packages);
    return codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}}));
  };
  EXPECT_THAT(codes("git"), Contains("IMG006"));
  for (const std::string_view packages : {"libgl1 libglib2.0-0", "ffmpeg libsm6", "python3-opencv"})
    EXPECT_THAT(codes(packages), IsEmpty()) << packages;
}

TEST(Rules, TakeADeploymentWithRanksForATraining) {
  const auto codes = [](std::string_view script) {
    const std::string text = fmt::format(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: t}}\nspec:\n  replicas: 3\n"
        "  template:\n    spec:\n      containers:\n        - name: t\n          image: a:1\n"
        "          command: [python, {}]\n          env: [{{name: RANK, value: \"0\"}}]\n",
        script);
    return codes_of(lint({{Source{"job.yaml", text, SourceKind::kManifest}}}));
  };
  EXPECT_THAT(codes("train.py"), testing::IsSupersetOf({"RANK002", "RST009"}));
  EXPECT_THAT(codes("rank_pages.py"), testing::Not(Contains("RST009")));
}

TEST(Rules, TakeWhatStandsInBracesForToBeFilledIn) {
  const std::string text =
      replace_first(read("pytorchjob.yaml"), "registry.local/ml/train:2.3.0", "\"{IMAGE}\"");
  EXPECT_THAT(codes_of(lint({{Source{"job.yaml", text, SourceKind::kManifest}}})),
              testing::Not(Contains("IMG001")));
}

TEST(Rules, LetRuntimesOfOtherFrameworksStartPython) {
  const auto codes = [](const std::string& runtime) {
    std::string text = replace_first(read("trainjob.yaml"), "runtimeRef: {name: torch-gang}",
                                     "runtimeRef: {name: " + runtime + "}");
    text = replace_first(text, "[torchrun, tune.py]", "[python, tune.py]");
    text = replace_first(text, "    numProcPerNode: 8\n", "");
    return codes_of(lint({{Source{"job.yaml", text, SourceKind::kManifest}}}));
  };
  EXPECT_THAT(codes("torch-gang"), Contains("RANK009"));
  EXPECT_THAT(codes("xgboost-distributed"), testing::Not(Contains("RANK009")));
}

TEST(Rules, AskForAGangOnlyWhereTheRuntimeIsSeen) {
  const std::string both = read("trainjob.yaml");
  const std::string alone = both.substr(both.find("---\n"));
  EXPECT_THAT(codes_of(lint({{Source{"job.yaml", alone, SourceKind::kManifest}}})), IsEmpty());
}

TEST(Rules, LetMpirunHandOnItsEnvironment) {
  const auto codes = [](const std::string& handed) {
    const std::string text =
        replace_first(read("mpijob.yaml"), "command: [mpirun, -np,",
                      "env: [{name: NCCL_ALGO, value: Ring}]\n              command: [mpirun, " +
                          handed + "-np,");
    return codes_of(lint({{Source{"mpijob.yaml", text, SourceKind::kManifest}}}));
  };
  EXPECT_THAT(codes(""), Contains("NCCL008"));
  for (const std::string handed :
       {"-x, NCCL_ALGO, ", "-x, NCCL_ALGO=Tree, ", "--mca, mca_base_env_list, NCCL_ALGO, "})
    EXPECT_THAT(codes(handed), IsEmpty()) << handed;
}

TEST(Rules, LetAMasterTaskCompleteTheJobOfVolcano) {
  const auto codes = [](const std::string& action) {
    const std::string text = replace_first(
        replace_first(read("volcano.yaml"), "    - {event: PodEvicted, action: RestartJob}\n",
                      "    - {event: TaskCompleted, action: " + action + "}\n"),
        "    - name: worker\n      replicas: 2\n      template: *pod\n",
        "    - name: worker\n      replicas: 2\n      template:\n        spec:\n"
        "          restartPolicy: OnFailure\n          containers:\n            - name: wait\n"
        "              image: registry.local/ml/mpi:1.0\n"
        "              command: [sh, -c, sleep infinity]\n");
    return codes_of(lint({{Source{"volcano.yaml", text, SourceKind::kManifest}}}));
  };
  EXPECT_THAT(codes("RestartJob"), Contains("RST002"));
  EXPECT_THAT(codes("CompleteJob"), testing::Not(Contains("RST002")));
}

TEST(Rules, FindNoFaultWithAPodsNameThatIsAService) {
  const std::string bare =
      replace_first(read("job.yaml"), "--master-addr=bert-0.bert", "--master-addr=bert-0");
  const std::string named = bare +
                            "---\napiVersion: v1\nkind: Service\nmetadata: {name: bert-0}\n"
                            "spec: {clusterIP: None}\n";
  const auto codes = [](const std::string& text) {
    return codes_of(lint({{Source{"job.yaml", text, SourceKind::kManifest}}}));
  };
  EXPECT_THAT(codes(bare), Contains("RDZV005"));
  EXPECT_THAT(codes(named), testing::Not(Contains("RDZV005")));
}

TEST(Rules, LetAShellThatKnowsCondaActivate) {
  const std::string good = read("Dockerfile");
  for (const std::string run : {"RUN . /opt/conda/etc/profile.d/conda.sh && conda activate ml",
                                "SHELL [\"bash\", \"--login\", \"-c\"]\nRUN conda activate ml",
                                "RUN echo \"conda activate ml\" >> /etc/shell.rc",
                                "ENV BASH_ENV=/e\nRUN conda activate ml"}) {
    const std::string text = replace_first(good, "WORKDIR /app", "WORKDIR /app\n" + run);
    EXPECT_THAT(codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}})),
                testing::Not(Contains("RUN038")))
        << run;
  }
}

TEST(Rules, CountNothingAgainstAPipThatUpgradesItself) {
  const std::string good = read("Dockerfile");
  const auto codes = [](const std::string& text) {
    return codes_of(lint({{Source{"Dockerfile", text, SourceKind::kDockerfile}}}));
  };
  EXPECT_THAT(codes(replace_first(good, "WORKDIR /app", "RUN pip install --upgrade pip")),
              IsEmpty());
  EXPECT_THAT(codes(replace_first(good, "opencv-python-headless", "'accelerate>=1.11.0'")),
              IsEmpty());
}

TEST(Rules, LetPodsOfOneObjectEachBeToldTheirPlace) {
  const std::string told = replace_first(read("pods.yaml"), "{name: MASTER_PORT, value: \"29500\"}",
                                         "{name: WORLD_SIZE, value: \"2\"}");
  const std::string alone = told.substr(0, told.find("---\napiVersion: v1\nkind: Pod\nmetadata:\n"
                                                     "  name: ddp-1"));
  EXPECT_THAT(codes_of(lint({{Source{"pods.yaml", alone, SourceKind::kManifest}}})),
              testing::Not(Contains("RANK013")));
}

TEST(Rules, ReadTheProcessesOfMpirunFromTheEnvironment) {
  const auto codes = [](const std::string& count, const std::string& processes) {
    const std::string text = replace_first(
        read("mpijob.yaml"),
        "[mpirun, -np, \"16\", all_reduce_perf, -b, \"8\", -e, 16G, -f, \"2\", -g, \"1\"]",
        "[bash, -c, \"exec mpirun -np " + processes +
            " all_reduce_perf\"]\n              env: [{name: NP, value: \"" + count + "\"}]");
    return codes_of(lint({{Source{"mpijob.yaml", text, SourceKind::kManifest}}}));
  };
  for (const std::string processes : {"$(NP)", "${NP:-4}", "$NP"}) {
    EXPECT_THAT(codes("32", processes), Contains("RANK011")) << processes;
    EXPECT_THAT(codes("16", processes), IsEmpty()) << processes;
  }
  EXPECT_THAT(codes("32", "${PROCESSES:-4}"), IsEmpty());
}

// The logs of the node are meant to be the node's.
TEST(Rules, LetPodsSeeTheLogsOfTheirNode) {
  const std::string text =
      replace_first(read("pytorchjob.yaml"),
                    "              persistentVolumeClaim:\n                claimName: checkpoints",
                    "              hostPath: {path: /var/log}");
  EXPECT_THAT(codes_of(lint({{Source{"pytorchjob.yaml", text, SourceKind::kManifest}}})),
              testing::Not(Contains("STO002")));
}

TEST(Rules, FixesKeepTheEndsOfLines) {
  std::string text =
      replace_first(read("hostnetwork.yaml"), "      dnsPolicy: ClusterFirstWithHostNet\n", "");
  text = replace_first(
      text, "          volumeMounts:\n            - {name: shm, mountPath: /dev/shm}\n", "");
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2))
    text.insert(at, 1, '\r');
  std::vector<Source> sources = {{"job.yaml", text, SourceKind::kManifest}};
  EXPECT_THAT(codes_of(fix_sources(sources)), testing::IsSupersetOf({"NET001", "SHM001"}));
  const std::string& fixed = sources[0].text;
  for (size_t at = fixed.find('\n'); at != std::string::npos; at = fixed.find('\n', at + 1))
    EXPECT_EQ(fixed[at - 1], '\r') << fixed;
}

// A mended file must be readable, without what was mended, and as it is after a second time.
TEST(Rules, FixesSettleAndChangeNothingTwice) {
  size_t fixed_rows = 0;
  for (const Spoilt& row : spoilt_files()) {
    std::vector<Source> sources = {{row.file, spoil(row), kind_of_fixture(row.file)}};
    const std::vector<Finding> settled = fix_sources(sources);
    const std::vector<Finding> left = lint(sources);
    for (const Finding& finding : left)
      EXPECT_THAT(finding.edits, IsEmpty()) << finding.code << " in\n" << sources[0].text;
    for (const Finding& finding : left) {
      EXPECT_TRUE(row.code == "RUN002" || finding.code != "RUN002") << sources[0].text;
    }
    const std::string once = sources[0].text;
    EXPECT_THAT(fix_sources(sources), IsEmpty());
    EXPECT_EQ(sources[0].text, once);
    fixed_rows += settled.empty() ? 0 : 1;
  }
  EXPECT_GE(fixed_rows, 20u);
}

}  // namespace
}  // namespace shanty::lint
