#pragma once

#include <string>

#include "cli/verb.h"
#include "follow/connect.h"
#include "follow/find.h"

namespace CLI {
class App;
}

namespace shanty {

// The variants of verbs that act on a cluster instead of this machine: `--on kubernetes[:CONTEXT]`.

// Is there an --on among the arguments?
bool asks_for_cluster(int argc, char** argv);
// The same for `run`, where everything behind a script is the script's: only with a job file.
bool runs_on_cluster(int argc, char** argv);

int run_on(const Verb& verb, int argc, char** argv);
int ps_on(const Verb& verb, int argc, char** argv);
int top_on(const Verb& verb, int argc, char** argv);
int logs_on(const Verb& verb, int argc, char** argv);

// --on and --namespace. `required`: the verb knows clusters only.
void add_cluster_options(CLI::App& app, follow::ClusterChoice& choice, bool required);
// "shanty VERB: message" on stderr; the exit code of an error of the cluster.
int fail_on(const Verb& verb, const Error& error);
// What to type to act on that job again: "shanty logs -f train --on kubernetes:lab".
std::string command_for(const std::string& verb, const std::string& job,
                        const follow::ClusterChoice& choice, const std::string& k8s_namespace);

}  // namespace shanty
