#pragma once

#include <string>
#include <vector>

#include "doctor/diagnose.h"
#include "doctor/rule.h"

namespace shanty {

// What is not read line by line: the Flight Recorder's dumps and run directories of ours.
void add_flight_findings(const CaseFiles& files, Hypotheses& out, std::vector<std::string>& notes);
void add_run_findings(const CaseFiles& files, const DiagnoseOptions& options, Hypotheses& out,
                      std::vector<std::string>& notes);

}  // namespace shanty
