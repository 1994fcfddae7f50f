#include "lint/python/rules/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causes/catalogue.h"
#include "lint/python/python_test_util.h"

namespace shanty::lint {
namespace {

// A text that has the mistake, and its twin that has not.
struct Twins {
  std::string_view code;
  std::string_view name;
  std::string_view sick;
  std::string_view healthy;
};

constexpr Twins kTwins[] = {
    {"RANK001", "SamplerByLocalRank",
     "m = DDP(m)\nsampler = DistributedSampler(data, num_replicas=world_size, rank=local_rank)\n",
     "m = DDP(m)\nsampler = DistributedSampler(data, num_replicas=world_size, rank=rank)\n"},
    {"RANK001", "GroupByLocalRank",
     "dist.init_process_group('nccl', rank=local_rank, world_size=world_size)\n",
     "dist.init_process_group('nccl', rank=rank, world_size=world_size)\n"},
    {"RANK001", "SliceByLocalRank",
     "dist.init_process_group('nccl')\nfiles = names[local_rank::world_size]\n",
     "dist.init_process_group('nccl')\nfiles = names[rank::world_size]\n"},
    {"RANK001", "ShardByLocalRank",
     "dist.init_process_group('nccl')\ndata = data.shard(world_size, local_rank)\n",
     "dist.init_process_group('nccl')\ndata = data.shard(num_shards=world_size, index=rank)\n"},
    {"RANK001", "WriterPerNode",
     "dist.init_process_group('nccl')\nif local_rank == 0:\n    torch.save(s, 'last.pt')\n",
     "dist.init_process_group('nccl')\nif rank == 0:\n    torch.save(s, 'last.pt')\n"},
    {"RANK001", "WriterPerNodeThroughAFlag",
     "dist.init_process_group('nccl')\nmaster = rank % torch.cuda.device_count() == 0\n"
     "def save():\n    torch.save(s, 'last.pt')\nif master:\n    save()\n",
     "dist.init_process_group('nccl')\nmaster = rank == 0\n"
     "def save():\n    torch.save(s, 'last.pt')\nif master:\n    save()\n"},
    {"RANK001", "WriterPerNodeWithNamesOfItsOwn",
     "dist.init_process_group('nccl')\nif local_rank == 0:\n    torch.save(s, path)\n",
     "dist.init_process_group('nccl')\nif local_rank == 0:\n"
     "    torch.save(s, f'last.{hostname}.pt')\n"},
    {"RANK032", "EngineSavesOnOneRank",
     "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=m)\nengine.backward(loss)\n"
     "if rank == 0:\n    engine.save_checkpoint(path)\n",
     "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=m)\nengine.backward(loss)\n"
     "engine.save_checkpoint(path)\n"},
    {"RANK032", "TrainerSavesOnOneRank",
     "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m)\n"
     "if trainer.is_global_zero:\n    trainer.save_checkpoint(path)\n",
     "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m)\n"
     "trainer.save_checkpoint(path)\n"},
    {"RANK032", "SynchronisedLogOnOneRank",
     "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m)\n"
     "class M(pl.LightningModule):\n    def validation_step(self, b, i):\n"
     "        if self.trainer.is_global_zero:\n            self.log('a', b, sync_dist=True)\n",
     "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m)\n"
     "class M(pl.LightningModule):\n    def validation_step(self, b, i):\n"
     "        if self.trainer.is_global_zero:\n            self.log('a', b, "
     "rank_zero_only=True)\n"},
    {"RANK032", "StateOfShardsOnOneRank",
     "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.backward(l)\n"
     "if accelerator.is_main_process:\n    accelerator.save_state(path)\n",
     "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.backward(l)\n"
     "if accelerator.is_main_process or accelerator.distributed_type == 'DEEPSPEED':\n"
     "    accelerator.save_state(path)\n"},
    {"CKPT020", "AllRanksSaveUnderAccelerate",
     "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.backward(l)\n"
     "torch.save(s, 'last.pt')\n",
     "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.backward(l)\n"
     "if accelerator.is_main_process:\n    torch.save(s, 'last.pt')\n"},
    {"SCR001", "EngineWithASamplerOfTheScript",
     "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=m)\n"
     "s = DistributedSampler(data)\nfor epoch in range(9):\n    for b in loader:\n"
     "        engine.backward(b)\n",
     "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=m)\n"
     "s = DistributedSampler(data)\nfor epoch in range(9):\n    s.set_epoch(epoch)\n"
     "    for b in loader:\n        engine.backward(b)\n"},
    {"CKPT027", "GeneratorsNotSaved",
     "torch.manual_seed(1)\nm = DDP(m)\nloss.backward()\nstate = torch.load(p, "
     "map_location='cpu')\n"
     "optimizer.load_state_dict(state['optimizer'])\nif rank == 0:\n    torch.save({'model': "
     "m.state_dict(), 'optimizer': optimizer.state_dict(), 'epoch': epoch}, p)\n",
     "torch.manual_seed(1)\nm = DDP(m)\nloss.backward()\nstate = torch.load(p, "
     "map_location='cpu')\n"
     "optimizer.load_state_dict(state['optimizer'])\nif rank == 0:\n    torch.save({'model': "
     "m.state_dict(), 'optimizer': optimizer.state_dict(), 'epoch': epoch,\n"
     "                'rng': torch.get_rng_state()}, p)\n"},
    {"PERF001", "DebuggingLeftOn",
     "os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\ndist.init_process_group('nccl')\n",
     "if args.debug:\n    os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n"
     "dist.init_process_group('nccl')\n"},
    {"PERF001", "AnomaliesLookedFor",
     "torch.autograd.set_detect_anomaly(True)\ndist.init_process_group('nccl')\n",
     "torch.autograd.set_detect_anomaly(False)\ndist.init_process_group('nccl')\n"},
    {"RANK032", "ReportOfOneWorker",
     "import ray.train\nimport ray.train.torch\nmodel = ray.train.torch.prepare_model(m)\n"
     "loss.backward()\nif ray.train.get_context().get_world_rank() == 0:\n"
     "    ray.train.report({'loss': 1})\n",
     "import ray.train\nimport ray.train.torch\nmodel = ray.train.torch.prepare_model(m)\n"
     "loss.backward()\nif ray.train.get_context().get_world_rank() == 0:\n    c = write()\n"
     "ray.train.report({'loss': 1}, checkpoint=c)\n"},
    {"RANK032", "WholeTensorOnOneRank",
     "from torch.distributed.fsdp import fully_shard\nfully_shard(model)\nloss.backward()\n"
     "if dist.get_rank() == 0:\n    print(norm.full_tensor())\n",
     "from torch.distributed.fsdp import fully_shard\nfully_shard(model)\nloss.backward()\n"
     "whole = norm.full_tensor()\nif dist.get_rank() == 0:\n    print(whole)\n"},
    {"RANK032", "SynchronisedLogOfAModuleByItself",
     "import lightning as L\nclass M(L.LightningModule):\n    def training_step(self, b, i):\n"
     "        return b\n    def on_validation_epoch_end(self):\n"
     "        if self.trainer.is_global_zero:\n            self.log('a', 1, sync_dist=True)\n",
     "import lightning as L\nclass M(L.LightningModule):\n    def training_step(self, b, i):\n"
     "        return b\n    def on_validation_epoch_end(self):\n"
     "        self.log('a', 1, sync_dist=True)\n"},
    {"RANK032", "StateThatNamesItselfOnOneRank",
     "from accelerate import Accelerator\naccelerator = Accelerator(project_config=c)\n"
     "accelerator.backward(l)\nif accelerator.is_main_process:\n    accelerator.save_state()\n",
     "from accelerate import Accelerator\naccelerator = Accelerator(project_config=c)\n"
     "accelerator.backward(l)\naccelerator.save_state()\n"},
    {"RANK034", "DownloadByTheWorkersOfRay",
     "from ray.train.torch import TorchTrainer\nfrom torchvision import datasets\n"
     "def data():\n    return datasets.MNIST('d', download=True)\ndef worker(config):\n"
     "    data()\n    loss.backward()\nTorchTrainer(worker).fit()\n",
     "from ray.train.torch import TorchTrainer\nfrom torchvision import datasets\n"
     "def data():\n    return datasets.MNIST('d', download=True)\ndef worker(config):\n"
     "    loss.backward()\ndata()\nTorchTrainer(worker).fit()\n"},
    {"RANK034", "DownloadUnderALock",
     "from torchvision import datasets\ndist.init_process_group('nccl')\n"
     "d = datasets.MNIST('d', download=True)\n",
     "from torchvision import datasets\nfrom filelock import FileLock\n"
     "dist.init_process_group('nccl')\nwith FileLock('d.lock'):\n"
     "    d = datasets.MNIST('d', download=True)\n"},
    {"RANK032", "FunctionThatIsOnlyLookedAt",
     "import lightning as L\ndef main(fabric):\n    if fabric.global_rank == 0:\n"
     "        fabric.save(p, s)\nfabric = L.Fabric()\nfabric.launch(main)\nloss.backward()\n",
     "import lightning as L\ndef setup():\n    fabric.launch(main)\ndef main(fabric):\n"
     "    fabric.save(p, s)\n    if fabric.global_rank == 0:\n        keep_signature(setup)\n"
     "fabric = L.Fabric()\nloss.backward()\n"},
    {"RANK031", "ModelBesideItsDevice",
     "dist.init_process_group('nccl')\nnet = Net().cuda()\nm = DDP(net, device_ids=[local_rank])\n",
     "dist.init_process_group('nccl')\nnet = Net().cuda(local_rank)\n"
     "m = DDP(net, device_ids=[local_rank])\n"},
    {"RANK033", "ForwardByItsName", "model = DDP(net)\nif rank == 0:\n    y = model.forward(x)\n",
     "model = DDP(net)\nif rank == 0:\n    y = model.module.forward(x)\n"},
    {"RANK001", "ModelOfATrainerPerNode",
     "from transformers import Trainer\ntrainer = Trainer(model)\ntrainer.train()\n"
     "if local_rank == 0:\n    model.save_pretrained('out')\n",
     "from transformers import Trainer\ntrainer = Trainer(model)\ntrainer.train()\n"
     "if rank == 0:\n    model.save_pretrained('out')\n"},
    {"SCR009", "NumberOfEachStepUnderAccelerate",
     "from accelerate import Accelerator\naccelerator = Accelerator()\nfor x in loader:\n"
     "    accelerator.backward(loss)\n    total += loss.item()\n",
     "from accelerate import Accelerator\naccelerator = Accelerator()\nfor x in loader:\n"
     "    accelerator.backward(loss)\n    total += loss.detach()\n"},
    {"CKPT020", "NamedByTheDevice",
     "def worker(device):\n    dist.init_process_group('nccl', rank=device)\n    path = 'x.pt'\n"
     "    torch.save(m, path)\nmp.spawn(worker)\n",
     "def worker(device):\n    dist.init_process_group('nccl', rank=device)\n"
     "    path = f'x_{device}.pt'\n    torch.save(m, path)\nmp.spawn(worker)\n"},
    {"CKPT024", "WeightsInALoopOfNoName",
     "m = DDP(m)\nfor i in range(9):\n    for x in loader:\n        loss.backward()\n"
     "    if rank == 0:\n        torch.save(m.module.state_dict(), f'{i}.pt')\n",
     "m = DDP(m)\nfor i in range(9):\n    for x in loader:\n        loss.backward()\n"
     "for i in range(9):\n    if rank == 0:\n        torch.save(m.module.state_dict(), "
     "f'{i}.pt')\n"},
    {"CKPT024", "WeightsAndTheirScore",
     "m = DDP(m)\nfor epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        torch.save({'model': m.module.state_dict(), 'dice': 1, 'epoch': epoch}, "
     "f'{epoch}.pt')\n",
     "m = DDP(m)\nfor epoch in range(9):\n    loss.backward()\nif rank == 0:\n"
     "    torch.save({'model': m.module.state_dict(), 'dice': 1, 'epoch': epoch}, 'final.pt')\n"},
    {"CKPT024", "OptimizerThatIsNotReadBack",
     "m = DDP(m)\nstate = torch.load(p, map_location='cpu')\nmodel.load_state_dict(state['m'])\n"
     "start_epoch = state['epoch']\nfor epoch in range(start_epoch, 9):\n    loss.backward()\n"
     "    if rank == 0:\n        torch.save({'m': m.state_dict(), 'opt': opt.state_dict(), "
     "'epoch': "
     "epoch}, f'{epoch}.pt')\n",
     "m = DDP(m)\nstate = torch.load(p, map_location='cpu')\nmodel.load_state_dict(state['m'])\n"
     "opt.load_state_dict(state['opt'])\n"
     "start_epoch = state['epoch']\nfor epoch in range(start_epoch, 9):\n    loss.backward()\n"
     "    if rank == 0:\n        torch.save({'m': m.state_dict(), 'opt': opt.state_dict(), "
     "'epoch': "
     "epoch}, f'{epoch}.pt')\n"},
    {"CKPT022", "LoadedByWorkersOfRay",
     "import ray.train.torch\nm = ray.train.torch.prepare_model(m)\nloss.backward()\n"
     "config = ScalingConfig(use_gpu=True)\nstate = torch.load('checkpoint.pt')\n",
     "import ray.train.torch\nm = ray.train.torch.prepare_model(m)\nloss.backward()\n"
     "config = ScalingConfig(use_gpu=True)\nstate = torch.load('checkpoint.pt', "
     "map_location='cpu')\n"},
    {"RUN024", "LocalhostOfSeveralNodes",
     "def worker(gpu):\n    dist.init_process_group('nccl', rank=node * gpus + gpu)\n"
     "os.environ['MASTER_ADDR'] = '127.0.0.1'\nmp.spawn(worker, nprocs=8)\n",
     "def worker(gpu):\n    dist.init_process_group('nccl', rank=gpu)\n"
     "os.environ['MASTER_ADDR'] = '127.0.0.1'\nmp.spawn(worker, nprocs=8)\n"},
    {"RUN027", "NotDestroyedByAScriptWithoutMain",
     "dist.init_process_group('nccl')\nloss.backward()\n",
     "def start():\n    dist.init_process_group('nccl')\nloss.backward()\n"},
    {"RANK036", "OneRankClips",
     "m = DDP(m)\nfor x in loader:\n    loss.backward()\n    if rank == 0:\n"
     "        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)\n    optimizer.step()\n",
     "m = DDP(m)\nfor x in loader:\n    loss.backward()\n    if clip > 0:\n"
     "        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)\n    optimizer.step()\n"},
    {"RANK036", "OneRankSteps",
     "m = DDP(m)\nfor x in loader:\n    loss.backward()\n    if rank == 0:\n"
     "        optimizer.step()\n",
     "m = DDP(m)\nfor x in loader:\n    loss.backward()\n    if rank == 0:\n"
     "        progress.step()\n    optimizer.step()\n"},
    {"RANK036", "OneRankLoadsTheOptimizer",
     "m = DDP(m)\nloss.backward()\nif rank == 0:\n    optimizer.load_state_dict(s)\n",
     "m = DDP(m)\nloss.backward()\nif rank == 0:\n    optimizer.load_state_dict(s)\n"
     "dist.broadcast_object_list(state)\n"},
    {"RANK036", "OneRankLoadsIntoTheWrapper",
     "m = DDP(net)\nloss.backward()\nif rank == 0:\n    m.module.load_state_dict(s)\n",
     "if rank == 0:\n    net.load_state_dict(s)\nm = DDP(net)\nloss.backward()\n"},
    {"CKPT020", "PretrainedByEveryRank",
     "model = DDP(net)\nloss.backward()\nmodel.module.save_pretrained('out')\n",
     "model = DDP(net)\nloss.backward()\nif rank == 0:\n    model.module.save_pretrained('out')\n"
     "tokenizer.save_pretrained('out')\n"},
    {"CKPT020", "PretrainedAfterATrainerOfSeveralDevices",
     "import lightning as L\ntrainer = L.Trainer(devices=8, strategy='ddp')\ntrainer.fit(m)\n"
     "m.model.save_pretrained('out')\n",
     "import lightning as L\ntrainer = L.Trainer(devices=8, strategy='ddp')\ntrainer.fit(m)\n"
     "if trainer.is_global_zero:\n    m.model.save_pretrained('out')\n"},
    {"CKPT020", "PretrainedAfterATrainerOfOneDevice",
     "import lightning as L\ntrainer = L.Trainer(devices='auto')\ntrainer.fit(m)\n"
     "m.model.save_pretrained('out')\n",
     "import lightning as L\ntrainer = L.Trainer(devices=1)\ntrainer.fit(m)\n"
     "m.model.save_pretrained('out')\n"},
    {"RANK035", "CountOfBadEpochs",
     "m = DDP(m)\nval = DataLoader(d, sampler=DistributedSampler(val_set))\nbest, bad = 9, 0\n"
     "for epoch in range(9):\n    for x in loader:\n        loss.backward()\n"
     "    total = 0\n    for x in val:\n        total += m(x).item()\n"
     "    if total < best:\n        best, bad = total, 0\n    else:\n        bad += 1\n"
     "        if bad > 5:\n            break\n",
     "m = DDP(m)\nval = DataLoader(d, sampler=DistributedSampler(val_set))\n"
     "for epoch in range(9):\n    for x in loader:\n        loss.backward()\n"
     "    total = 0\n    for x in val:\n        total += m(x).item()\n"
     "    print(total)\n    if epoch > limit:\n        break\n"},
    {"SCR001", "LoaderOfRay",
     "import ray.train.torch\nloader = ray.train.torch.prepare_data_loader(DataLoader(d))\n"
     "for epoch in range(9):\n    for x in loader:\n        loss.backward()\n",
     "import ray.train.torch\nloader = ray.train.torch.prepare_data_loader(DataLoader(d))\n"
     "for epoch in range(9):\n    loader.sampler.set_epoch(epoch)\n    for x in loader:\n"
     "        loss.backward()\n"},
    {"SCR001", "EpochsThatAreNotCalledSo",
     "m = DDP(m)\ns = DistributedSampler(data)\nwhile step < 9000:\n    for x in loader:\n"
     "        loss.backward()\n",
     "m = DDP(m)\ns = DistributedSampler(data)\nfor x in loader:\n    loss.backward()\n"},
    {"SCR012", "ForwardThatFails",
     "model = DDP(m)\nfor b in loader:\n    try:\n        loss = model(b)\n"
     "    except NothingInIt:\n        continue\n    loss.backward()\n    optimizer.step()\n",
     "model = DDP(m)\nfor b in loader:\n    try:\n        b = fetch(b)\n"
     "    except NothingInIt:\n        continue\n    loss = model(b)\n    loss.backward()\n"
     "    optimizer.step()\n"},
    {"CKPT020", "PretrainedByEveryProcess",
     "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.backward(l)\n"
     "accelerator.unwrap_model(m).save_pretrained('out')\n",
     "from accelerate import Accelerator\naccelerator = Accelerator()\naccelerator.backward(l)\n"
     "accelerator.unwrap_model(m).save_pretrained('out',\n"
     "    is_main_process=accelerator.is_main_process)\n"},
    {"CKPT024", "SavedInTheLoopAndAtTheEnd",
     "m = DDP(m)\nfor x in loader:\n    loss.backward()\n    if rank == 0:\n"
     "        torch.save({'m': m.state_dict(), 'opt': optimizer.state_dict()}, 'last.pt')\n",
     "m = DDP(m)\nfor x in loader:\n    loss.backward()\nif rank == 0:\n"
     "    torch.save({'m': m.state_dict(), 'opt': optimizer.state_dict()}, 'final.pt')\n"},
    {"CKPT024", "ScalerThatIsOff",
     "m = DDP(m)\nscaler = torch.amp.GradScaler('cuda')\nfor epoch in range(9):\n"
     "    loss.backward()\n    scaler.step(optimizer)\n    if rank == 0:\n"
     "        torch.save({'m': m.state_dict(), 'opt': optimizer.state_dict(), 'epoch': 1}, p)\n",
     "m = DDP(m)\nscaler = torch.amp.GradScaler('cuda', enabled=False)\nfor epoch in range(9):\n"
     "    loss.backward()\n    scaler.step(optimizer)\n    if rank == 0:\n"
     "        torch.save({'m': m.state_dict(), 'opt': optimizer.state_dict(), 'epoch': 1}, p)\n"},
    {"RUN024", "MethodOfAWorldWrittenIn",
     "dist.init_process_group('nccl', init_method='tcp://10.0.0.3:23456', rank=0, "
     "world_size=16)\n",
     "dist.init_process_group('nccl', init_method='tcp://10.0.0.3:23456', rank=0, world_size=1)\n"},
    {"NCCL003", "TimeoutThatNobodyReads",
     "os.environ['NCCL_TIMEOUT_MS'] = '1800000'\ndist.init_process_group('nccl')\n",
     "os.environ['NCCL_IB_TIMEOUT'] = '22'\ndist.init_process_group('nccl')\n"},
    {"RANK030", "GlobalRankAsDevice",
     "dist.init_process_group('nccl')\ntorch.cuda.set_device(dist.get_rank())\n",
     "dist.init_process_group('nccl')\n"
     "torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())\n"},
    {"RANK030", "GlobalRankInAString",
     "dist.init_process_group('nccl')\nmodel.to(f'cuda:{rank}')\n",
     "dist.init_process_group('nccl')\nmodel.to(f'cuda:{local_rank}')\n"},
    {"RANK035", "StepByItsOwnLoss",
     "m = DDP(m)\nfor x in loader:\n    loss = m(x)\n    if loss != 0:\n        loss.backward()\n",
     "m = DDP(m)\nfor x in loader:\n    loss = m(x)\n    dist.all_reduce(loss)\n"
     "    if loss != 0:\n        loss.backward()\n"},
    {"RANK035", "StepByTheNumberOfTheStep",
     "m = DDP(m)\nfor x in loader:\n    loss = m(x)\n    if loss.item() > 0:\n"
     "        loss.backward()\n",
     "m = DDP(m)\nfor i, x in loader:\n    loss = m(x)\n    if i > 0:\n        loss.backward()\n"},
    {"RANK036", "LearningRateOfOneRank",
     "m = DDP(m)\nloss.backward()\noptimizer.step()\nif rank == 0:\n    scheduler.step()\n",
     "m = DDP(m)\nloss.backward()\noptimizer.step()\nscheduler.step()\n"},
    {"CKPT024", "WeightsAloneThatTheNextRunReads",
     "m.load_state_dict(torch.load(p, map_location='cpu'))\nm = DDP(m)\nfor epoch in range(9):\n"
     "    loss.backward()\n    if rank == 0:\n        torch.save(m.module.state_dict(), p)\n",
     "m.load_state_dict(torch.load(start, map_location='cpu'))\nm = DDP(m)\n"
     "for epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        torch.save(m.module.state_dict(), p)\n"},
    {"RANK031", "NoDevicePerProcessOfItsOwn",
     "def worker(index, n):\n    dist.init_process_group('nccl', rank=index, world_size=n)\n"
     "    model = DDP(net.cuda())\nmp.spawn(worker, args=(8,), nprocs=8)\n",
     "def worker(index, n):\n    dist.init_process_group('nccl', rank=index, world_size=n)\n"
     "    model = DDP(net.cuda(index))\nmp.spawn(worker, args=(8,), nprocs=8)\n"},
    {"RUN024", "MethodOfAFileThatStays",
     "dist.init_process_group('nccl', 'file:///shared/meet', rank=rank, world_size=world_size)\n",
     "if os.path.exists('/shared/meet'):\n    os.remove('/shared/meet')\n"
     "dist.init_process_group('nccl', 'file:///shared/meet', rank=rank, world_size=world_size)\n"},
    {"SCR017", "MovedAfterItWasWrapped",
     "dist.init_process_group('nccl')\nmodel = Net(cfg)\nmodel = DDP(model).to(device)\n",
     "dist.init_process_group('nccl')\nmodel = Net(cfg)\nmodel.cuda()\n"
     "model = DDP(model).to(device)\n"},
    {"SCR017", "WrappedOnTheCpuForGloo",
     "dist.init_process_group('nccl')\nnet = Net(cfg)\nnet = DDP(net).cuda()\n",
     "dist.init_process_group('gloo')\nnet = Net(cfg)\nnet = DDP(net).cuda()\n"},
    {"SCR017", "AModelThatMovesItself",
     "dist.init_process_group('nccl')\nclass Net:\n    def __init__(self):\n        pass\n"
     "net = Net()\nnet = DDP(net).cuda()\n",
     "dist.init_process_group('nccl')\nclass Net:\n    def __init__(self):\n        self.w.cuda()\n"
     "net = Net()\nnet = DDP(net).cuda()\n"},
    {"CKPT020", "AWriterOfAGroup",
     "dist.init_process_group('nccl')\nif epoch == 0:\n    torch.save(s, path)\n",
     "dist.init_process_group('nccl')\nif dp_rank == 0:\n    torch.save(s, path)\n"},
    {"CKPT020", "AWriterOfAGroupByACall",
     "dist.init_process_group('nccl')\nif ready:\n    torch.save(s, path)\n",
     "dist.init_process_group('nccl')\nif dist.get_rank(group) == 0:\n    torch.save(s, path)\n"},
    {"CKPT024", "WeightsAloneByAName",
     "m = DDP(m)\nfor epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        state = m.module.state_dict()\n        torch.save(state, f'{epoch}.pt')\n",
     "m = DDP(m)\nfor epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        state = everything()\n        torch.save(state, f'{epoch}.pt')\n"},
    {"CKPT026", "PrefixThatTheScriptReadsAgain",
     "m = DDP(m)\nif rank == 0:\n    torch.save(m.state_dict(), p)\n",
     "m = DDP(m)\nif rank == 0:\n    torch.save(m.state_dict(), p)\n"
     "m.load_state_dict(torch.load(p, map_location='cpu'))\n"},
    {"RANK031", "NoDevicePerProcess", "dist.init_process_group('nccl')\nmodel = DDP(net.cuda())\n",
     "dist.init_process_group('nccl')\ntorch.cuda.set_device(local_rank)\n"
     "model = DDP(net.cuda())\n"},
    {"RANK032", "BarrierOnOneRank",
     "dist.init_process_group('nccl')\nif rank == 0:\n    dist.barrier()\n",
     "dist.init_process_group('nccl')\nif rank == 0:\n    work()\ndist.barrier()\n"},
    {"RANK032", "BarrierAfterAnEarlyReturn",
     "dist.init_process_group('nccl')\ndef save():\n    if rank != 0:\n        return\n"
     "    write()\n    dist.barrier()\nsave()\n",
     "dist.init_process_group('nccl')\ndef save():\n    if not ready:\n        return\n"
     "    write()\n    dist.barrier()\nsave()\n"},
    {"RANK032", "BroadcastInOneBranch",
     "dist.init_process_group('nccl')\nif rank == 0:\n    dist.broadcast(a, 0)\n",
     "dist.init_process_group('nccl')\nif rank == 0:\n    dist.broadcast(a, 0)\nelse:\n"
     "    dist.broadcast(b, 0)\n"},
    {"RANK032", "BarriersOnBothSides",
     "dist.init_process_group('nccl')\nif local_rank not in [-1, 0]:\n    dist.barrier()\n",
     "dist.init_process_group('nccl')\nif local_rank not in [-1, 0]:\n    dist.barrier()\n"
     "data = fetch()\nif local_rank == 0:\n    dist.barrier()\n"},
    {"RANK032", "StateOfAShardedModel",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(net)\n"
     "if rank == 0:\n    torch.save(model.state_dict(), 'm.pt')\n",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(net)\n"
     "state = model.state_dict()\nif rank == 0:\n    torch.save(state, 'm.pt')\n"},
    {"RANK032", "StateOfAModelThatIsShardedLater",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(model)\n"
     "if rank == 0:\n    check(model.state_dict())\n",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
     "if rank == 0:\n    check(model.state_dict())\nmodel = FSDP(model)\n"},
    {"RANK032", "StateOfDTensors",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(model)\n"
     "if rank == 0:\n    check(model.state_dict())\n",
     "from torch.distributed.fsdp import fully_shard\nmodel = fully_shard(model)\n"
     "if rank == 0:\n    check(model.state_dict())\n"},
    {"RANK032", "ShardedCheckpointOnOneRank",
     "import torch.distributed.checkpoint as dcp\ndist.init_process_group('nccl')\n"
     "if rank == 0:\n    dcp.save(state, checkpoint_id='c')\n",
     "import torch.distributed.checkpoint as dcp\ndist.init_process_group('nccl')\n"
     "dcp.save(state, checkpoint_id='c')\n"},
    {"RANK033", "EvaluationOnOneRank",
     "model = DDP(net)\ndef evaluate(m, loader):\n    for x in loader:\n        m(x)\n"
     "if rank == 0:\n    evaluate(model, loader)\n",
     "model = DDP(net)\ndef evaluate(m, loader):\n    for x in loader:\n        m(x)\n"
     "if rank == 0:\n    evaluate(model.module, loader)\n"},
    {"RANK034", "DownloadByAll",
     "from torchvision import datasets\ndist.init_process_group('nccl')\n"
     "data = datasets.MNIST('d', download=True)\n",
     "from torchvision import datasets\ndist.init_process_group('nccl')\n"
     "if local_rank == 0:\n    datasets.MNIST('d', download=True)\ndist.barrier()\n"
     "data = datasets.MNIST('d')\n"},
    {"RANK032", "TrainerTestsOnOneRank",
     "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m)\n"
     "if trainer.global_rank == 0:\n    trainer.test(m)\n",
     "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m)\ntrainer.test(m)\n"},
    {"RANK034", "DownloadBetweenBarriers",
     "from torchvision import datasets\ndist.init_process_group('nccl')\n"
     "dist.barrier()\ndata = datasets.MNIST('d', download=True)\ndist.barrier()\n",
     "from torchvision import datasets\ndist.init_process_group('nccl')\n"
     "if rank != 0:\n    dist.barrier()\ndata = datasets.MNIST('d', download=True)\n"
     "if rank == 0:\n    dist.barrier()\n"},
    {"RANK035", "OneRankLeavesTheLoop",
     "model = DDP(net)\nfor epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        if stop(val):\n            break\n",
     "model = DDP(net)\nfor epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        flag[0] = stop(val)\n    dist.broadcast(flag, 0)\n    if flag[0]:\n        break\n"},
    {"RANK035", "StopsByItsOwnShare",
     "model = DDP(net)\nval_sampler = DistributedSampler(val_set, shuffle=False)\n"
     "for epoch in range(9):\n    loss.backward()\n    stopping(val_loss)\n"
     "    if stopping.early_stop:\n        break\n",
     "model = DDP(net)\nval_sampler = DistributedSampler(val_set, shuffle=False)\n"
     "for epoch in range(9):\n    loss.backward()\n    dist.all_reduce(val_loss)\n"
     "    stopping(val_loss)\n    if stopping.early_stop:\n        break\n"},
    {"RANK035", "StopsByTheWholeValidationSet",
     "model = DDP(net)\nval_sampler = DistributedSampler(val_set, shuffle=False)\n"
     "for epoch in range(9):\n    loss.backward()\n    if wait > patience:\n        break\n",
     "model = DDP(net)\nval_loader = DataLoader(val_set)\nfor epoch in range(9):\n"
     "    loss.backward()\n    if wait > patience:\n        break\n"},
    {"RANK035", "SkipsItsOwnStep",
     "model = DDP(net)\nfor x in loader:\n    loss = model(x)\n    if torch.isnan(loss):\n"
     "        continue\n    loss.backward()\n",
     "model = DDP(net)\nfor x in loader:\n    loss = model(x)\n    bad = torch.isnan(loss).int()\n"
     "    dist.all_reduce(bad)\n    if bad.item() or torch.isnan(loss):\n        continue\n"
     "    loss.backward()\n"},
    {"RANK035", "SkipsAnEmptyBatch",
     "model = DDP(net)\nfor batch in loader:\n    if batch is None:\n        continue\n"
     "    model(batch).backward()\n",
     "model = DDP(net)\nfor i, batch in enumerate(loader):\n    if i < start:\n        continue\n"
     "    model(batch).backward()\n"},
    {"RANK035", "OneRankHasTheSum",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(net)\n"
     "def run():\n    dist.reduce(val, 0)\n    if val < best:\n        s = model.state_dict()\n",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(net)\n"
     "def run():\n    dist.reduce(val, 0)\n    if rank == 0:\n        print(val)\n"
     "    s = model.state_dict()\n"},
    {"SCR001", "NoSetEpoch",
     "sampler = DistributedSampler(data)\nfor epoch in range(3):\n    for x in loader:\n"
     "        loss.backward()\n",
     "sampler = DistributedSampler(data)\nfor epoch in range(3):\n    sampler.set_epoch(epoch)\n"
     "    for x in loader:\n        loss.backward()\n"},
    {"SCR001", "NoSetEpochWithoutShuffle",
     "s = DistributedSampler(data)\nfor epoch in range(3):\n    for x in loader:\n"
     "        loss.backward()\n",
     "s = DistributedSampler(data, shuffle=False)\nfor epoch in range(3):\n"
     "    for x in loader:\n        loss.backward()\n"},
    {"SCR003", "ShuffleAndSampler",
     "s = Sampler(d)\nloader = DataLoader(d, shuffle=True, sampler=s)\nDDP(m)\n",
     "s = Sampler(d)\nloader = DataLoader(d, shuffle=(s is None), sampler=s)\nDDP(m)\n"},
    {"SCR004", "FindUnused", "model = DDP(net, find_unused_parameters=True)\n",
     "model = DDP(net, find_unused_parameters=False)\n"},
    {"SCR006", "RateWithoutWorld",
     "model = DDP(net)\nloader = DataLoader(data, batch_size=32, sampler=s)\n"
     "opt = torch.optim.SGD(model.parameters(), lr=0.1)\nloss.backward()\n",
     "model = DDP(net)\nloader = DataLoader(data, batch_size=32, sampler=s)\n"
     "lr = 0.1 * world_size\nopt = torch.optim.SGD(model.parameters(), lr=lr)\n"
     "loss.backward()\n"},
    {"SCR007", "BatchOfANode",
     "n = torch.cuda.device_count()\ndist.init_process_group('nccl')\nbatch_size = batch_size // "
     "n\n",
     "dist.init_process_group('nccl')\nbatch_size = batch_size // world_size\n"},
    {"SCR008", "SmallBatchNorm",
     "net = torch.nn.BatchNorm2d(8)\nmodel = DDP(net)\nloader = DataLoader(data, batch_size=2)\n",
     "net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm2d(8))\n"
     "model = DDP(net)\nloader = DataLoader(data, batch_size=2)\n"},
    {"SCR009", "ItemEachStep",
     "model = DDP(net.cuda())\nfor x in loader:\n    loss.backward()\n    total += loss.item()\n",
     "model = DDP(net.cuda())\nfor i, x in enumerate(loader):\n    loss.backward()\n"
     "    if i % 100 == 0:\n        print(loss.item())\n"},
    {"SCR010", "AccumulationWithReduction",
     "model = DDP(net)\nfor i, x in enumerate(loader):\n    loss.backward()\n"
     "    if (i + 1) % 4 == 0:\n        optimizer.step()\n",
     "model = DDP(net)\nfor i, x in enumerate(loader):\n    with model.no_sync():\n"
     "        loss.backward()\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n"},
    {"SCR011", "CacheEmptiedEachStep",
     "for x in loader:\n    loss.backward()\n    torch.cuda.empty_cache()\n",
     "for x in loader:\n    loss.backward()\ntorch.cuda.empty_cache()\n"},
    {"SCR012", "SwallowedFailure",
     "model = DDP(net)\nfor x in loader:\n    try:\n        loss.backward()\n"
     "        optimizer.step()\n    except RuntimeError as e:\n        print(e)\n        "
     "continue\n",
     "model = DDP(net)\nfor x in loader:\n    try:\n        loss.backward()\n"
     "        optimizer.step()\n    except RuntimeError as e:\n        print(e)\n        raise\n"},
    {"SCR013", "SameSeedForAugmentation",
     "from torchvision.transforms import RandomResizedCrop\nmodel = DDP(net)\n"
     "torch.manual_seed(0)\n",
     "from torchvision.transforms import RandomResizedCrop\nmodel = DDP(net)\n"
     "torch.manual_seed(0 + rank)\n"},
    {"SCR014", "PastTheWrapper",
     "model = DDP(net)\nfor x in loader:\n    loss, _ = model.module.losses(x)\n"
     "    loss.backward()\n",
     "model = DDP(net)\nfor x in loader:\n    loss = model(x)\n    loss.backward()\n"
     "    model.module.update()\n"},
    {"SCR014", "PastTheWrapperByItsForward",
     "def train(model, loader):\n    for x in loader:\n        out = model.module(x)\n"
     "        loss = criterion(out, y)\n        scaler.scale(loss).backward()\ntrain(DDP(net), "
     "l)\n",
     "def train(model, loader):\n    for x in loader:\n        with torch.no_grad():\n"
     "            target = model.module(x)\n        out = model(x)\n"
     "        loss = criterion(out, target) + model.module.penalty()\n"
     "        scaler.scale(loss).backward()\ntrain(DDP(net), l)\n"},
    {"SCR014", "PastTheWrapperWithReductionByHand",
     "model = DDP(net)\nfor x in loader:\n    model.module(x).backward()\n",
     "model = DDP(net)\nfor x in loader:\n    model.module(x).backward()\n"
     "    for p in model.parameters():\n        dist.all_reduce(p.grad)\n"},
    {"SCR015", "OptimizerBeforeSharding",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
     "opt = torch.optim.AdamW(model.parameters(), lr=1e-3)\nmodel = FSDP(model)\n",
     "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
     "model = FSDP(model)\nopt = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"},
    {"SCR016", "SamplerAroundASampler",
     "from torch.utils.data import SubsetRandomSampler\nmodel = DDP(net)\n"
     "own = SubsetRandomSampler(indices)\nsampler = DistributedSampler(own)\n",
     "from torch.utils.data import Subset\nmodel = DDP(net)\n"
     "own = Subset(data, indices)\nsampler = DistributedSampler(own)\n"},
    {"CKPT020", "AllRanksSave",
     "dist.init_process_group('nccl')\ndef save(m):\n    torch.save(m, 'last.pt')\nsave(model)\n",
     "dist.init_process_group('nccl')\ndef save(m):\n    torch.save(m, 'last.pt')\n"
     "if dist.get_rank() == 0:\n    save(model)\n"},
    {"CKPT020", "AllRanksSaveTheirOwn",
     "dist.init_process_group('nccl')\ntorch.save(m, 'last.pt')\n",
     "dist.init_process_group('nccl')\npath = f'last.{rank}.pt'\ntorch.save(m, path)\n"},
    {"CKPT021", "NoBarrierBeforeLoad",
     "dist.init_process_group('nccl')\ndef demo():\n    if rank == 0:\n"
     "        torch.save(m, PATH)\n    torch.load(PATH, map_location='cpu')\ndemo()\n",
     "dist.init_process_group('nccl')\ndef demo():\n    if rank == 0:\n"
     "        torch.save(m, PATH)\n    dist.barrier()\n"
     "    torch.load(PATH, map_location='cpu')\ndemo()\n"},
    {"CKPT022", "NoMapLocation",
     "dist.init_process_group('nccl')\nstate = torch.load('checkpoint.pt')\n",
     "dist.init_process_group('nccl')\nstate = torch.load('checkpoint.pt', map_location='cpu')\n"},
    {"CKPT023", "CodeInTheFile",
     "dist.init_process_group('nccl')\ntorch.load(p, map_location='cpu', weights_only=False)\n",
     "dist.init_process_group('nccl')\ntorch.load(p, map_location='cpu', weights_only=True)\n"},
    {"CKPT024", "NoScheduler",
     "for epoch in range(9):\n    loss.backward()\n    scheduler.step()\n"
     "    torch.save({'model': m.state_dict(), 'optimizer': opt.state_dict(), 'epoch': epoch}, "
     "'c.pt')\n",
     "for epoch in range(9):\n    loss.backward()\n    scheduler.step()\n"
     "    torch.save({'model': m.state_dict(), 'optimizer': opt.state_dict(), 'epoch': epoch, "
     "'scheduler': scheduler.state_dict()}, 'c.pt')\n"},
    {"CKPT024", "WeightsOnlyInTheLoop",
     "model = DDP(net)\nfor epoch in range(9):\n    loss.backward()\n    if rank == 0:\n"
     "        torch.save(model.module.state_dict(), f'{epoch}.pt')\n",
     "model = DDP(net)\nfor epoch in range(9):\n    loss.backward()\nif rank == 0:\n"
     "    torch.save(model.module.state_dict(), 'final.pt')\n"},
    {"CKPT024", "NoCount",
     "for i in range(9):\n    loss.backward()\n"
     "    torch.save({'model': m.state_dict(), 'optimizer': opt.state_dict()}, 'c.pt')\n",
     "for i in range(9):\n    loss.backward()\n"
     "    torch.save({'model': m.state_dict(), 'optimizer': opt.state_dict()}, f'{i}.pt')\n"},
    {"CKPT025", "OverwrittenInPlace",
     "if os.path.exists('last.pt'):\n    state = torch.load('last.pt')\nfor epoch in range(9):\n"
     "    loss.backward()\n    torch.save(state, 'last.pt')\n",
     "if os.path.exists('last.pt'):\n    state = torch.load('last.pt')\nfor epoch in range(9):\n"
     "    loss.backward()\n    torch.save(state, 'tmp.pt')\n    os.replace('tmp.pt', 'last.pt')\n"},
    {"CKPT026", "PrefixOfTheWrapper",
     "model = DDP(net)\nif rank == 0:\n    torch.save(model.state_dict(), 'm.pt')\n",
     "model = DDP(net)\nif rank == 0:\n    torch.save(model.module.state_dict(), 'm.pt')\n"},
    {"LOAD020", "NoWorkers",
     "loader = DataLoader(data, pin_memory=True)\nx.cuda()\nloss.backward()\n",
     "loader = DataLoader(data, pin_memory=True, num_workers=4)\nx.cuda()\nloss.backward()\n"},
    {"LOAD021", "WorkersStartAnew",
     "loader = DataLoader(data, num_workers=4)\nx.cuda()\nfor epoch in range(9):\n"
     "    loss.backward()\n",
     "loader = DataLoader(data, num_workers=4, persistent_workers=True)\nx.cuda()\n"
     "for epoch in range(9):\n    loss.backward()\n"},
    {"LOAD022", "NotPinned",
     "loader = DataLoader(data, num_workers=4)\nx.cuda()\nloss.backward()\n",
     "loader = DataLoader(data, num_workers=4, pin_memory=True)\nx.cuda()\nloss.backward()\n"},
    {"LOAD023", "WorkersByCpuCount",
     "loader = DataLoader(data, num_workers=os.cpu_count())\nloss.backward()\n",
     "loader = DataLoader(data, num_workers=min(8, os.cpu_count()))\nloss.backward()\n"},
    {"RUN022", "SpawnUnderALauncher", "model = DDP(net)\nmp.spawn(worker, nprocs=8)\n",
     "model = DDP(net)\nif 'LOCAL_RANK' in os.environ:\n    worker(local_rank)\nelse:\n"
     "    mp.spawn(worker, nprocs=8)\n"},
    {"RUN024", "MasterWrittenIn",
     "os.environ['MASTER_ADDR'] = '10.0.0.3'\ndist.init_process_group('nccl')\n",
     "os.environ.setdefault('MASTER_ADDR', '10.0.0.3')\ndist.init_process_group('nccl')\n"},
    {"RUN024", "MethodWrittenIn",
     "dist.init_process_group('nccl', init_method='tcp://10.0.0.3:23456', rank=rank)\n",
     "dist.init_process_group('nccl', init_method='env://', rank=rank)\n"},
    {"RUN024", "AddressOfOneMachine",
     "def worker(gpu):\n    dist.init_process_group('nccl', rank=gpu, world_size=8)\n"
     "os.environ['MASTER_ADDR'] = '10.57.23.164'\nmp.spawn(worker, nprocs=8)\n",
     "def worker(gpu):\n    dist.init_process_group('nccl', rank=gpu, world_size=8)\n"
     "os.environ['MASTER_ADDR'] = 'localhost'\nmp.spawn(worker, nprocs=8)\n"},
    {"RUN024", "ProcessesOfItsOwn",
     "def worker(rank):\n    os.environ['MASTER_ADDR'] = 'localhost'\n"
     "    dist.init_process_group('nccl', rank=rank)\nworker(0)\n",
     "def worker(rank):\n    os.environ['MASTER_ADDR'] = 'localhost'\n"
     "    dist.init_process_group('nccl', rank=rank)\n"
     "for r in range(4):\n    mp.Process(target=worker, args=(r,)).start()\n"},
    {"RUN030", "TheMachineOfSrun",
     "os.environ['MASTER_ADDR'] = os.environ['SLURM_LAUNCH_NODE_IPADDR']\n"
     "dist.init_process_group('nccl')\n",
     "os.environ['MASTER_ADDR'] = first_node(os.environ['SLURM_JOB_NODELIST'])\n"
     "dist.init_process_group('nccl')\n"},
    {"RUN044", "NowhereToMeet",
     "def worker(rank, n):\n    dist.init_process_group('nccl', rank=rank, world_size=n)\n"
     "mp.spawn(worker, nprocs=8)\n",
     "def worker(rank, n):\n    dist.init_process_group('nccl', init_method='tcp://localhost:1',\n"
     "                            rank=rank, world_size=n)\nmp.spawn(worker, nprocs=8)\n"},
    {"NCCL007", "PeerToPeerOff", "os.environ['NCCL_P2P_DISABLE'] = '1'\nmodel = DDP(net)\n",
     "os.environ['NCCL_P2P_DISABLE'] = '0'\nmodel = DDP(net)\n"},
    {"RUN025", "VariableTooLate",
     "dist.init_process_group('nccl')\nos.environ['NCCL_DEBUG'] = 'INFO'\n",
     "os.environ['NCCL_DEBUG'] = 'INFO'\ndist.init_process_group('nccl')\n"},
    {"RUN026", "ShortTimeout", "dist.init_process_group('nccl', timeout=timedelta(seconds=60))\n",
     "dist.init_process_group('nccl', timeout=timedelta(minutes=30))\n"},
    {"RUN027", "NotDestroyed",
     "dist.init_process_group('nccl')\nif __name__ == '__main__':\n    loss.backward()\n",
     "dist.init_process_group('nccl')\nif __name__ == '__main__':\n    loss.backward()\n"
     "    dist.destroy_process_group()\n"},
    {"RUN028", "GlooForGpus",
     "dist.init_process_group('gloo')\ntorch.cuda.set_device(local_rank)\nmodel = DDP(net)\n",
     "dist.init_process_group('nccl')\ntorch.cuda.set_device(local_rank)\nmodel = DDP(net)\n"},
};

class PythonRule : public testing::TestWithParam<Twins> {};

TEST_P(PythonRule, FindsTheMistakeAndSparesItsTwin) {
  const Twins& twins = GetParam();
  EXPECT_TRUE(has_code(with_imports(twins.sick), twins.code));
  EXPECT_FALSE(has_code(with_imports(twins.healthy), twins.code));
  EXPECT_NE(find_cause(twins.code), nullptr) << "no page explains " << twins.code;
}

INSTANTIATE_TEST_SUITE_P(, PythonRule, testing::ValuesIn(kTwins),
                         [](const auto& twins) { return std::string(twins.param.name); });

// Rules about what is missing need a script without the usual imports.
TEST(PythonRules, ALoaderWithoutASamplerIsFound) {
  constexpr std::string_view kStart =
      "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n"
      "from torch.utils.data import DataLoader\nmodel = DistributedDataParallel(net)\n";
  const std::string start(kStart);
  EXPECT_TRUE(
      has_code(start + "loader = DataLoader(data, shuffle=True)\nloss.backward()\n", "SCR002"));
  EXPECT_FALSE(
      has_code(start + "loader = DataLoader(data, sampler=own)\nloss.backward()\n", "SCR002"));
  EXPECT_FALSE(has_code(start + "data = Files(rank, world)\nloader = DataLoader(data)\n"
                                "loss.backward()\n",
                        "SCR002"));
  EXPECT_FALSE(has_code(start + "from torch.utils.data import IterableDataset\n"
                                "loader = DataLoader(data)\nloss.backward()\n",
                        "SCR002"));
}

TEST(PythonRules, AWrapperByAnotherNameIsFound) {
  constexpr std::string_view kStart =
      "import torch\nfrom torch.utils.data import DataLoader\n"
      "Wrap = (torch.nn.parallel.DistributedDataParallel if gpu else Other)\nm = Wrap(net)\n"
      "loss.backward()\n";
  const std::string start(kStart);
  EXPECT_TRUE(has_code(start + "kwargs = {'num_workers': 4} if gpu else {}\n"
                               "loader = DataLoader(data, shuffle=True, **kwargs)\n",
                       "SCR002"));
  EXPECT_FALSE(has_code(start + "kwargs = {'sampler': own}\nloader = DataLoader(data, **kwargs)\n",
                        "SCR002"));
  EXPECT_FALSE(
      has_code(start + "kwargs = options()\nloader = DataLoader(data, **kwargs)\n", "SCR002"));
}

TEST(PythonRules, DataParallelIsFoundWhereThereIsNothingBetter) {
  EXPECT_TRUE(has_code("import torch\nm = torch.nn.DataParallel(m)\nloss.backward()\n", "SCR005"));
  EXPECT_FALSE(
      has_code("import torch\nfrom torch.nn.parallel import DistributedDataParallel\n"
               "m = DistributedDataParallel(m) if multi else torch.nn.DataParallel(m)\n"
               "loss.backward()\n",
               "SCR005"));
  EXPECT_EQ(finding_in("import torch\nimport torch.distributed as dist\n"
                       "dist.init_process_group('nccl')\nm = torch.nn.DataParallel(m)\n"
                       "loss.backward()\n",
                       "SCR005")
                .severity,
            Severity::kWarning);
}

TEST(PythonRules, ASamplerThatIsSwitchedOffIsFound) {
  const std::string start =
      "import lightning as L\nfrom torch.utils.data import DataLoader\n"
      "trainer = L.Trainer(strategy='ddp', use_distributed_sampler=False)\n";
  EXPECT_TRUE(has_code(start + "trainer.fit(m, DataLoader(ds, shuffle=True))\n", "SCR002"));
  EXPECT_FALSE(has_code(start + "trainer.fit(m, DataLoader(ds, sampler=own))\n", "SCR002"));
}

TEST(PythonRules, AnArgumentOfTheOldLauncherIsFound) {
  const std::string start =
      "import os, argparse, torch\nimport torch.distributed as dist\n"
      "parser = argparse.ArgumentParser()\nparser.add_argument('--local_rank', type=int)\n"
      "dist.init_process_group('nccl')\n";
  EXPECT_TRUE(has_code(start, "RUN020"));
  EXPECT_FALSE(has_code(start + "local_rank = int(os.environ['LOCAL_RANK'])\n", "RUN020"));
  EXPECT_EQ(finding_in(start, "RUN020").severity, Severity::kNote);
  EXPECT_EQ(finding_in(start + "torch.cuda.set_device(args.local_rank)\n", "RUN020").severity,
            Severity::kWarning);
}

TEST(PythonRules, ARankOfSpawnIsToldFromOthers) {
  const std::string start =
      "import os, torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
      "os.environ.setdefault('MASTER_ADDR', 'localhost')\n";
  const std::string spawned =
      start +
      "def worker(rank, world):\n    dist.init_process_group('nccl', rank=rank, "
      "world_size=world)\n    torch.cuda.set_device(rank)\n"
      "    if rank == 0:\n        torch.save(m, 'm.pt')\nmp.spawn(worker, args=(8,))\n";
  EXPECT_EQ(codes_in(spawned), std::vector<std::string>{"RUN023"});
}

TEST(PythonRules, ARankOfSpawnIsFollowedThroughFunctions) {
  const std::string start =
      "import torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
      "from multiprocessing import Process\n"
      "def setup(rank, n):\n"
      "    dist.init_process_group('gloo', 'tcp://localhost:2950', rank=rank, world_size=n)\n"
      "def demo(rank, n):\n    setup(rank, n)\n";
  const std::string handed = "def run(fn, n):\n    mp.spawn(fn, args=(n,))\n";
  EXPECT_TRUE(has_code(start + handed + "run(demo, 8)\n", "RUN023"));
  EXPECT_FALSE(has_code(start + handed + "run(other, 8)\n", "RUN023"));
  const std::string loop = "for i in range(4):\n    Process(target=demo, args=";
  EXPECT_TRUE(has_code(start + loop + "(i, 4)).start()\n", "RUN023"));
  EXPECT_FALSE(has_code(start + loop + "(node_rank * 4 + i, 8)).start()\n", "RUN023"));
}

TEST(PythonRules, AParameterIsNotTheModulesNameOfTheSameSpelling) {
  EXPECT_TRUE(has_code(with_imports("def save(local_rank):\n    pass\n"
                                    "dist.init_process_group('nccl')\nm = DDP(m)\n"
                                    "def put(rank):\n    s = DistributedSampler(d, "
                                    "num_replicas=world_size, rank=rank)\nput(local_rank)\n"),
                       "RANK001"));
}

TEST(PythonRules, EditsMendWhatTheyShould) {
  const std::string script = with_imports(
      "sampler = DistributedSampler(data, num_replicas=world_size, rank=local_rank)\n"
      "loader = DataLoader(data, shuffle=True, sampler=sampler)\n"
      "state = torch.load('checkpoint.pt')\nx.cuda()\n"
      "for epoch in range(3):\n    for x in loader:\n        loss.backward()\n");
  const std::string mended = apply_edits(script, lint_script(script));
  EXPECT_THAT(mended, testing::HasSubstr("rank=dist.get_rank())"));
  EXPECT_THAT(mended, testing::HasSubstr("shuffle=(sampler is None), sampler=sampler"));
  EXPECT_THAT(mended, testing::HasSubstr("torch.load('checkpoint.pt', map_location=\"cpu\")"));
  EXPECT_THAT(mended, testing::HasSubstr("range(3):\n    sampler.set_epoch(epoch)\n    for x"));
  for (const std::string_view code : {"RANK001", "SCR003", "CKPT022", "SCR001"}) {
    EXPECT_FALSE(has_code(mended, code)) << code;
  }
}

TEST(PythonRules, AnEditAsksForASamplerThatMayBeMissing) {
  const std::string script = with_imports(
      "if world_size > 1:\n    sampler = DistributedSampler(data)\nelse:\n    sampler = None\n"
      "for epoch in range(3):\n    loss.backward()\n");
  EXPECT_THAT(fixed(script, "SCR001"),
              testing::HasSubstr("    if sampler is not None:\n        sampler.set_epoch(epoch)\n"
                                 "    loss.backward()"));
}

}  // namespace
}  // namespace shanty::lint
