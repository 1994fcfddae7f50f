#include "lint/shell/lint_shell.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causes/catalogue.h"
#include "causes/report.h"

namespace shanty::lint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Finding> lint_text(std::string_view text, std::string name = "train.sh") {
  return lint_shell({std::move(name), std::string(text), SourceKind::kShell});
}

std::vector<std::string> codes_in(std::string_view text, std::string name = "train.sh") {
  std::vector<std::string> out;
  for (const Finding& finding : lint_text(text, std::move(name))) out.push_back(finding.code);
  return out;
}

struct Twins {
  std::string_view code;
  std::string_view name;
  std::string_view sick;
  std::string_view healthy;
  std::string_view file = "train.sh";
};

constexpr std::string_view kEntry = "entrypoint.sh";

constexpr Twins kTwins[] = {
    {"RUN021", "OldLauncher", "python -m torch.distributed.launch --nproc_per_node=8 train.py\n",
     "torchrun --nproc_per_node=8 train.py\n"},
    {"RUN024", "AddressWrittenIn", "export MASTER_ADDR=10.1.2.3\npython train.py\n",
     "export MASTER_ADDR=$HEAD_NODE\npython train.py\n"},
    {"RANK011", "MoreNodesThanAskedFor",
     "#SBATCH --nodes=2\nsrun torchrun --nnodes=8 --rdzv_backend=c10d --rdzv_endpoint=$H "
     "train.py\n",
     "#SBATCH --nodes=2-8\nsrun torchrun --nnodes=8 --rdzv_backend=c10d --rdzv_endpoint=$H "
     "train.py\n"},
    {"RANK011", "MoreLaunchersThanNodes",
     "#SBATCH --nodes=2\n#SBATCH --ntasks=4\nsrun torchrun --nnodes=8 --rdzv_endpoint=$H "
     "train.py\n",
     "#SBATCH --nodes=2\n#SBATCH --ntasks=4\nsrun torchrun --nnodes=4 --rdzv_endpoint=$H "
     "train.py\n"},
    {"RUN041", "CommandLineWithARankInIt",
     "#SBATCH --nodes=2\nL=\"accelerate launch --num_machines 2 --machine_rank $SLURM_NODEID\"\n"
     "srun bash -c \"$L train.py\"\naccelerate launch --num_machines 1 train.py\n",
     "#SBATCH --nodes=2\nL=\"accelerate launch --num_machines 2 --machine_rank \\$SLURM_NODEID\"\n"
     "srun bash -c \"$L train.py\"\naccelerate launch --num_machines 1 train.py\n"},
    {"RUN045", "PythonForTheScript", "torchrun --nproc-per-node=8 python train.py\n",
     "torchrun --nproc-per-node=8 --no-python python train.py\n"},
    {"RUN045", "PythonForTheScriptOfAccelerate", "accelerate launch python train.py\n",
     "accelerate launch train.py --interpreter python\n"},
    {"RUN045", "PythonForTheScriptInAnotherShell",
     "srun bash -c \"torchrun --rdzv_endpoint='$(scontrol show hostnames | head -n 1)':1 \\\n"
     "  python train.py\"\n",
     "srun bash -c \"torchrun --rdzv_endpoint='$(scontrol show hostnames | head -n 1)':1 \\\n"
     "  train.py; python train.py\"\n"},
    {"RUN030", "MasterThatTorchrunDoesNotRead",
     "#SBATCH --nodes=2\nexport MASTER_ADDR=$(scontrol show hostnames | head -n1)\n"
     "srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=4 train.py\n",
     "#SBATCH --nodes=2\nexport MASTER_ADDR=$(scontrol show hostnames | head -n1)\n"
     "srun torchrun --nnodes=$SLURM_NNODES --master-addr=$MASTER_ADDR train.py\n"},
    {"RUN030", "MasterOfEachNode",
     "torchrun --nnodes=$1 --node_rank=$2 --master_addr=127.0.0.1 train.py\n",
     "torchrun --nnodes=${NNODES:-1} --node_rank=${R:-0} --master_addr=${M:-127.0.0.1} train.py\n"},
    {"RUN031", "PortThatEachNodeDraws",
     "torchrun --nnodes=$N --node_rank=$R --master_addr=$M --master_port=$((RANDOM + 9)) "
     "train.py\n",
     "torchrun --nnodes=1 --master_port=$((RANDOM + 9)) train.py\n"},
    {"RUN046", "LineWithoutItsBackslash", "torchrun --nproc-per-node=8\n  --nnodes=2 train.py\n",
     "torchrun --nproc-per-node=8 \\\n  --nnodes=1 train.py\n"},
    {"RUN046", "CommentInTheMiddle",
     "torchrun --nproc-per-node=8 train.py \\\n  # --lr 1 \\\n  --epochs 3\n",
     "torchrun --nproc-per-node=8 train.py \\\n  --epochs 3\n# --lr 1\n"},
    {"RUN032", "RankOfALoop", "torchrun --nnodes=2 --node_rank=0 --master_addr=$M train.py\n",
     "for ((i = 0; i < 2; i++)); do\n"
     "  ssh $i torchrun --nnodes=2 --node_rank=$i --master_addr=$M train.py\ndone\n"},
    {"RUN029", "StandaloneOnSeveral", "torchrun --standalone --nnodes=2 train.py\n",
     "torchrun --standalone --nnodes=1 train.py\n"},
    {"RUN030", "MeetAtLocalhost",
     "N=2\ntorchrun --nnodes $N --rdzv_backend c10d --rdzv_endpoint localhost:29500 train.py\n",
     "N=2\ntorchrun --nnodes $N --rdzv_backend c10d --rdzv_endpoint $HEAD:29500 train.py\n"},
    {"RUN030", "MasterIsLocalhost",
     "MASTER_ADDR=127.0.0.1\n"
     "torchrun --nnodes=2 --node_rank=$R --master_addr=$MASTER_ADDR train.py\n",
     "MASTER_ADDR=127.0.0.1\ntorchrun --nnodes=1 --master_addr=$MASTER_ADDR train.py\n"},
    {"RUN031", "RandomPort",
     "PORT=$((20000 + RANDOM % 1000))\n"
     "torchrun --nnodes=2 --rdzv_endpoint=$HEAD:$PORT --rdzv_backend=c10d train.py\n",
     "PORT=$((20000 + JOB_ID % 1000))\n"
     "torchrun --nnodes=2 --rdzv_endpoint=$HEAD:$PORT --rdzv_backend=c10d train.py\n"},
    {"RUN032", "NoNodeRank", "torchrun --nnodes=2 --nproc_per_node=8 train.py\n",
     "torchrun --nnodes=2 --node-rank=$NODE_RANK --nproc_per_node=8 train.py\n"},
    {"RUN033", "RestartsOfOneNode",
     "torchrun --nnodes=2 --node_rank=$R --master_addr=$M --max_restarts=3 train.py\n",
     "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$M --max_restarts=3 train.py\n"},
    {"RUN030", "FallsBackToLocalhost",
     "HEAD=$(scontrol show hostnames | head -1 || echo localhost)\n"
     "torchrun --nnodes=$N --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py\n",
     "HEAD=$(scontrol show hostnames | head -1)\n"
     "torchrun --nnodes=$N --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py\n"},
    {"RUN030", "MeetAtLocalhostWithAccelerate",
     "accelerate launch --num_machines 2 --machine_rank $R --main_process_ip 127.0.0.1 train.py\n",
     "accelerate launch --num_machines 1 --main_process_ip 127.0.0.1 train.py\n"},
    {"RUN030", "MeetAtLocalhostByAnArray",
     "ARGS=(--nnodes=2)\nARGS+=(--rdzv_endpoint=localhost:29500 --rdzv_backend=c10d)\n"
     "torchrun \"${ARGS[@]}\" train.py\n",
     "ARGS=(--nnodes=2)\nARGS+=(--rdzv_endpoint=$HEAD:29500 --rdzv_backend=c10d)\n"
     "torchrun \"${ARGS[@]}\" train.py\n"},
    {"RUN030", "MeetAtLocalhostByAString",
     "ARGS=\" --nnodes=2 --rdzv_endpoint=localhost:29500 --rdzv_backend=c10d \"\n"
     "torchrun $ARGS train.py\n",
     "ARGS=\" --nnodes=1 --rdzv_endpoint=localhost:29500 --rdzv_backend=c10d \"\n"
     "torchrun $ARGS train.py\n"},
    {"RUN031", "RandomRendezvousId",
     "torchrun --nnodes=2 --rdzv_id=$RANDOM --rdzv_endpoint=$M --rdzv_backend=c10d train.py\n",
     "torchrun --nnodes=2 --rdzv_id=$JOB --rdzv_endpoint=$M --rdzv_backend=c10d train.py\n"},
    {"RUN032", "NoMachineRank",
     "accelerate launch --num_machines 2 --main_process_ip $M train.py\n",
     "accelerate launch --config_file a.yaml --num_machines 2 --main_process_ip $M train.py\n"},
    {"RUN041", "RankBeforeTheTask",
     "#SBATCH -N 2\nsrun torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=$M a.py\n",
     "#SBATCH -N 2\n"
     "srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=$M a.py'\n"},
    {"RUN041", "RankExportedBeforeTheTask",
     "#SBATCH --nodes=2\nexport RANK=$SLURM_PROCID\nsrun python train.py\n",
     "#SBATCH --nodes=2\nexport WORLD_SIZE=$SLURM_NTASKS\nsrun python train.py\n"},
    {"RUN042", "OneNodeOfFive",
     "#SBATCH --nodes=5\ntorchrun --nnodes=5 --rdzv_backend=c10d --rdzv_endpoint=$M train.py\n",
     "#SBATCH --nodes=5\n"
     "srun torchrun --nnodes=5 --rdzv_backend=c10d --rdzv_endpoint=$M train.py\n"},
    {"RUN043", "LauncherPerTask",
     "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n"
     "srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d train.py\n",
     "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n"
     "srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d "
     "train.py\n"},
    {"RUN030", "NoEndpointForC10d",
     "torchrun --nnodes=2 --rdzv_backend=c10d --master_addr=$HEAD train.py\n",
     "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py\n"},
    {"RUN030", "EachTaskItsOwnHost",
     "#SBATCH --nodes=2\n"
     "srun bash -c 'export MASTER_ADDR=$(hostname); torchrun --nnodes=2 --node_rank=$SLURM_NODEID "
     "--master_addr=$MASTER_ADDR train.py'\n",
     "#SBATCH --nodes=2\nexport MASTER_ADDR=$(hostname)\n"
     "srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID "
     "--master_addr=$MASTER_ADDR train.py'\n"},
    {"RUN030", "TheMachineOfSrun",
     "HEAD=$SLURM_LAUNCH_NODE_IPADDR\n"
     "srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py\n",
     "HEAD=$(scontrol show hostnames | head -n 1)\n"
     "srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py\n"},
    {"RUN030", "WhatHostsSaysOfTheName",
     "head_node_ip=$(srun -N 1 -w $head hostname --ip-address)\n"
     "srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$head_node_ip:1 train.py\n",
     "head_node_ip=$(srun -N 1 -w $head hostname --ip-address | awk '{print $1}')\n"
     "srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$head_node_ip:1 train.py\n"},
    {"RUN029", "StandaloneBesideAMaster",
     "torchrun --standalone --nnodes=$N --node_rank=$R --master_addr=$M train.py\n",
     "torchrun --standalone --nproc_per_node=8 train.py\n"},
    {"RANK017", "SrunWithoutNodes",
     "#SBATCH --nodes=4\nsrun torchrun --nproc_per_node=8 train.py\n",
     "#SBATCH --nodes=4\nsrun torchrun $ARGS train.py\n"},
    {"RUN042", "TasksForGpusAndNoSrun",
     "#SBATCH --gres=gpu:a100:4\n#SBATCH --ntasks-per-node=4\npython train.py\n",
     "#SBATCH --gres=gpu:a100:4\n#SBATCH --ntasks-per-node=4\nsrun python train.py\n"},
    {"RUN042", "SrunInACommentOnly",
     "#SBATCH --nodes=5\n# no srun needed here\n"
     "torchrun --nnodes=5 --rdzv_backend=c10d --rdzv_endpoint=$M train.py\n",
     "#SBATCH --nodes=5\n"
     "srun torchrun --nnodes=5 --rdzv_backend=c10d --rdzv_endpoint=$M train.py\n"},
    {"RUN034", "MoreProcessesThanAskedFor",
     "#SBATCH --gres=gpu:2\ntorchrun --nproc_per_node=4 train.py\n",
     "#SBATCH --gres=gpu:4\ntorchrun --nproc_per_node=4 train.py\n"},
    {"RUN043", "EveryTaskOnTheFirstGpu",
     "#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n"
     "srun torchrun --nnodes=4 --nproc_per_node=1 --rdzv_backend=c10d train.py\n",
     "#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n#SBATCH --gpus-per-task=1\n"
     "srun torchrun --nnodes=4 --nproc_per_node=1 --rdzv_backend=c10d train.py\n"},
    {"PERF001", "TheLastValueCounts",
     "export NCCL_DEBUG=INFO\nexport NCCL_DEBUG=TRACE\ntorchrun train.py\n",
     "export NCCL_DEBUG=TRACE\nexport NCCL_DEBUG=INFO\ntorchrun train.py\n"},
    {"NCCL007", "PeerToPeerOff", "export NCCL_P2P_DISABLE=1\ntorchrun train.py\n",
     "export NCCL_P2P_DISABLE=0\ntorchrun train.py\n"},
    {"NET004", "LoopbackBetweenNodes",
     "mpirun -np 16 -H a:8,b:8 -x NCCL_SOCKET_IFNAME=lo python train.py\n",
     "mpirun -np 16 -H a:8,b:8 -x NCCL_SOCKET_IFNAME=eth0 python train.py\n"},
    {"PERF001", "Tracing", "export NCCL_DEBUG=TRACE\ntorchrun train.py\n",
     "export NCCL_DEBUG=INFO\ntorchrun train.py\n"},
    {"RUN034", "MoreProcessesThanGpus",
     "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 train.py\n",
     "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py\n"},
    {"RUN035", "NoExec", "#!/bin/sh\nset -e\ncd /app\ntorchrun train.py\n",
     "#!/bin/sh\nset -e\ncd /app\nexec torchrun train.py\n", kEntry},
    {"RUN036", "CodeLostInAPipe", "#!/bin/bash\ntorchrun train.py 2>&1 | tee log\n",
     "#!/bin/bash\nset -o pipefail\ntorchrun train.py 2>&1 | tee log\n"},
    {"RUN037", "CodeLostAfterwards", "torchrun train.py\necho done\n",
     "set -e\ntorchrun train.py\necho done\n"},
    {"RUN038", "CondaWithoutItsFunctions", "conda activate torch\npython train.py\n",
     "source /opt/conda/etc/profile.d/conda.sh\nconda activate torch\npython train.py\n"},
    {"RUN038", "CondaOfAModule", "module purge\nconda activate torch\npython train.py\n",
     "module load anaconda3/2024.2\nconda activate torch\npython train.py\n"},
    {"RUN038", "CondaByItsOwnScript", "source tools.sh\nconda activate torch\npython train.py\n",
     "source activate\nconda activate torch\npython train.py\n"},
    {"RDZV007", "APortThatIsTooLarge", "torchrun --nproc-per-node 2 --master_port 66664 train.py\n",
     "torchrun --nproc-per-node 2 --master_port 16664 train.py\n"},
    {"RUN024", "AddressByAnotherName",
     "FIRST=192.0.2.7\nexport MASTER_ADDR=${FIRST}\ntorchrun train.py\n",
     "FIRST=node-0\nexport MASTER_ADDR=${FIRST}\ntorchrun train.py\n"},
    {"RUN039", "InstallAtStart", "pip install -r requirements.txt\ntorchrun train.py\n",
     "pip install --no-deps -e .\ntorchrun train.py\n"},
    {"RUN040", "InTheBackground", "#!/bin/sh\ncd /app\ntorchrun train.py &\n",
     "#!/bin/sh\ncd /app\ntorchrun train.py &\nwait\n", kEntry},
};

class ShellRule : public testing::TestWithParam<Twins> {};

TEST_P(ShellRule, FindsTheMistakeAndSparesItsTwin) {
  const Twins& twins = GetParam();
  EXPECT_THAT(codes_in(twins.sick, std::string(twins.file)), testing::Contains(twins.code));
  EXPECT_THAT(codes_in(twins.healthy, std::string(twins.file)),
              testing::Not(testing::Contains(twins.code)));
  EXPECT_NE(find_cause(twins.code), nullptr) << "no page explains " << twins.code;
}

INSTANTIATE_TEST_SUITE_P(, ShellRule, testing::ValuesIn(kTwins),
                         [](const auto& twins) { return std::string(twins.param.name); });

TEST(LintShell, AHealthyEntryPointIsQuiet) {
  EXPECT_THAT(codes_in("#!/bin/bash\nset -euo pipefail\nexport NCCL_DEBUG=WARN\ncd /workspace\n"
                       "exec torchrun --nnodes=\"$NNODES\" --node-rank=\"$NODE_RANK\" "
                       "--nproc-per-node=gpu --master-addr=\"$MASTER_ADDR\" train.py \"$@\"\n",
                       "entrypoint.sh"),
              IsEmpty());
}

TEST(LintShell, ScriptsThatDoNotTrainAreNotJudged) {
  EXPECT_THAT(codes_in("pip install black\nblack . | tee log\necho done\n"), IsEmpty());
  EXPECT_THAT(codes_in(""), IsEmpty());
}

TEST(LintShell, ABatchScriptRunsOnOneNodeAndMayDrawAPort) {
  EXPECT_THAT(codes_in("#!/bin/bash\n#SBATCH --nodes=2\nexport MASTER_PORT=$((1024 + RANDOM))\n"
                       "srun torchrun --nnodes=2 --rdzv_backend=c10d "
                       "--rdzv_endpoint=$HEAD:$MASTER_PORT train.py\n"),
              IsEmpty());
}

TEST(LintShell, VariablesOfNcclAreLookedUp) {
  EXPECT_THAT(codes_in("export NCCL_IB_DISABLE=1\n"), ElementsAre("NCCL001"));
  EXPECT_THAT(codes_in("export NCCL_IB_DISABLE=0\n"), IsEmpty());
}

TEST(LintShell, EditsMendWhatTheyShould) {
  const std::string entry = "#!/bin/bash\nset -e\ncd /app\ntorchrun train.py\n";
  EXPECT_EQ(apply_edits(entry, lint_text(entry, "entrypoint.sh")),
            "#!/bin/bash\nset -e\ncd /app\nexec torchrun train.py\n");
  const std::string piped = "#!/bin/bash\ntorchrun train.py | tee log\n";
  EXPECT_EQ(apply_edits(piped, lint_text(piped)),
            "#!/bin/bash\nset -o pipefail\ntorchrun train.py | tee log\n");
}

TEST(LintShell, LimitsAreSaid) {
  const std::string large = "torchrun train.py\n" + std::string(size_t{10} << 20, 'x');
  EXPECT_THAT(codes_in(large), ElementsAre("SCR049"));
}

}  // namespace
}  // namespace shanty::lint
