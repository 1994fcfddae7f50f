#pragma once

#include "logs/event_table.h"

namespace shanty {

using enum Weight;

// One table for each kind of speaker; event_rows() joins them.
std::span<const EventRow> nccl_rows();
std::span<const EventRow> torch_rows();
std::span<const EventRow> program_rows();
std::span<const EventRow> machine_rows();

}  // namespace shanty
