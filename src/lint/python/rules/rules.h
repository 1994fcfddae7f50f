#pragma once

#include "lint/python/context.h"

// One function per area, in the file of its name. Each looks at the whole script once.
namespace shanty::lint {

void check_local_rank(Context& context);          // RANK001
void check_devices(Context& context);             // RANK030, RANK031
void check_collectives(Context& context);         // RANK032, RANK033
void check_downloads(Context& context);           // RANK034
void check_decisions(Context& context);           // RANK035
void check_updates(Context& context);             // RANK036
void check_samplers(Context& context);            // SCR001 to SCR003, SCR016
void check_model(Context& context);               // SCR004, SCR005, SCR008
void check_batch(Context& context);               // SCR006, SCR007
void check_step(Context& context);                // SCR009 to SCR013
void check_wrapper(Context& context);             // SCR014, SCR015, SCR017
void check_saving(Context& context);              // CKPT020, CKPT021, CKPT025, CKPT026
void check_checkpoint_content(Context& context);  // CKPT024, CKPT027
void check_loading(Context& context);             // CKPT022, CKPT023
void check_loader(Context& context);              // LOAD020 to LOAD023
void check_environment(Context& context);         // NCCL, PERF001
void check_launch(Context& context);              // RUN020, RUN022 to RUN024, RUN044
void check_process_group(Context& context);       // RUN025 to RUN028

}  // namespace shanty::lint
