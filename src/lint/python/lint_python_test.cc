#include "lint/python/lint_python.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causes/catalogue.h"
#include "lint/python/python_test_util.h"

namespace shanty::lint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A script that does everything right.
constexpr std::string_view kHealthy = R"(import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def save(path, model, optimizer, scheduler, epoch):
    if dist.get_rank() != 0:
        return
    state = {
        "model": model.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
    }
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    world_size = dist.get_world_size()
    dataset = load_dataset()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64 // world_size, sampler=sampler, num_workers=4,
                        pin_memory=True, persistent_workers=True)
    model = DDP(build().cuda(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 90)
    start = 0
    if os.path.exists("last.pt"):
        state = torch.load("last.pt", map_location="cpu")
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1
    for epoch in range(start, 90):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0 and dist.get_rank() == 0:
                print(loss.item())
        scheduler.step()
        save("last.pt", model, optimizer, scheduler, epoch)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
)";

TEST(LintPython, AHealthyScriptIsQuiet) { EXPECT_THAT(codes_in(kHealthy), IsEmpty()); }

TEST(LintPython, FilesThatDoNotTrainAreNotJudged) {
  EXPECT_THAT(codes_in("import torch\ntorch.save({}, 'x')\n"), IsEmpty());
  EXPECT_THAT(codes_in("import os\nos.environ['MASTER_ADDR'] = '10.0.0.1'\n"), IsEmpty());
  EXPECT_THAT(codes_in(""), IsEmpty());
}

TEST(LintPython, TestsOfAFrameworkAreNotJudged) {
  EXPECT_THAT(codes_in("import unittest\nimport torch\nimport torch.distributed as dist\n"
                       "dist.init_process_group('gloo', init_method='tcp://10.0.0.1:1')\n"),
              IsEmpty());
}

TEST(LintPython, AGroupOfOneIsNotDistributed) {
  EXPECT_THAT(codes_in(with_imports("dist.init_process_group('gloo', rank=0, world_size=1)\n"
                                    "model = DDP(net)\nloader = DataLoader(data)\n"
                                    "loss.backward()\ntorch.save(model, 'm.pt')\n")),
              IsEmpty());
}

TEST(LintPython, ATemporaryFileIsNoCheckpoint) {
  EXPECT_THAT(codes_in("import tempfile\nimport torch\nloss.backward()\nfor _ in range(2):\n"
                       "    with tempfile.TemporaryFile() as file:\n"
                       "        torch.save(state, file)\n        torch.load(file)\n"),
              IsEmpty());
}

TEST(LintPython, FindingsHaveAPlaceAndAPage) {
  const std::string text = with_imports(
      "dist.init_process_group('nccl')\n"
      "model = DDP(net)\n"
      "if rank == 0:\n    dist.barrier()\n");
  const Finding finding = finding_in(text, "RANK032");
  EXPECT_EQ(finding.file, "train.py");
  EXPECT_EQ(finding.line, 16);
  EXPECT_EQ(finding.column, 5);
  EXPECT_EQ(finding.severity, Severity::kError);
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].line, 15u);
  EXPECT_NE(find_cause("RANK032"), nullptr);
}

TEST(LintPython, Python2AndTemplatesGiveOneHintAtMost) {
  // The grammar reads Python 2 as well.
  const std::string python2 = with_imports(
      "dist.init_process_group('nccl')\n"
      "try:\n    x = 1\nexcept Exception, e:\n    print 'no', e\nexec 'x' in d\n`x` <> 0777L\n");
  EXPECT_THAT(codes_in(python2), IsEmpty());
  const std::string jinja = with_imports(
      "dist.init_process_group('{{ backend }}')\n"
      "{% if x %}\nlr = {{ lr }}\n{% endif %}\n<<<<<<< HEAD\nx = 1\n=======\n");
  EXPECT_THAT(codes_in(jinja), ElementsAre("SCR049"));
  EXPECT_THAT(lint_script(jinja)[0].message, HasSubstr("no Python"));
}

TEST(LintPython, LimitsOfSizeAndDepthAreSaid) {
  const std::string start = with_imports("dist.init_process_group('nccl')\n");
  const std::string large = start + std::string(size_t{10} << 20, 'x');
  EXPECT_THAT(codes_in(large), ElementsAre("SCR049"));
  EXPECT_THAT(lint_script(large)[0].message, HasSubstr("bytes"));
  const std::string deep = start + "x = " + std::string(5000, '(') + std::string(5000, ')');
  EXPECT_THAT(codes_in(deep), ElementsAre("SCR049"));
  EXPECT_THAT(lint_script(deep)[0].message, HasSubstr("deep"));
}

TEST(LintPython, AScriptFullOfOneNameEnds) {
  std::string text = with_imports("dist.init_process_group('nccl')\nmodel = DDP(net)\n");
  for (int i = 0; i < 2000; ++i) {
    text += "def f(x): torch.save(f(f(x)), x)\nx = f(x)\nif x == 0: torch.save(x, x)\n";
  }
  EXPECT_FALSE(codes_in(text).empty());
}

TEST(LintPython, FrameworksThatDoItThemselvesAreLeftAlone) {
  EXPECT_THAT(codes_in(R"(import torch
import pytorch_lightning as pl
from torch.utils.data import DataLoader

class Net(pl.LightningModule):
    def training_step(self, batch, i):
        return self.net(batch).mean()

loader = DataLoader(data, shuffle=True, num_workers=n, pin_memory=True)
trainer = pl.Trainer(strategy="ddp", devices=8)
trainer.fit(Net(), loader)
torch.save(net.state_dict(), "last.pt")
)"),
              IsEmpty());
  EXPECT_THAT(codes_in(R"(import torch
from accelerate import Accelerator
accelerator = Accelerator()
model, loader = accelerator.prepare(model, loader)
for epoch in range(3):
    for batch in loader:
        accelerator.backward(model(batch))
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    torch.save(accelerator.unwrap_model(model).state_dict(), "m.pt")
)"),
              IsEmpty());
}

}  // namespace
}  // namespace shanty::lint
