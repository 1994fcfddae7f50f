#pragma once

namespace shanty::ckpt {

// The calling thread works beside a trainer from now on: where both want a core, it gets a quarter.
void work_in_background();

}  // namespace shanty::ckpt
