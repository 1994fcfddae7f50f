"""The smallest job: each rank says who it is and adds its number to everyone's."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor(float(dist.get_rank()))
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: all ranks add up to {total.item():.0f}")
dist.destroy_process_group()
