#include "job/keys.h"
#include "render/pod.h"
#include "render/pod_parts.h"

namespace shanty {
namespace {

constexpr uint64_t kMemoryBytes = 1u << 30;

Yaml init_container(const RenderContext& c, std::string_view name, std::string_view image,
                    const std::vector<std::string>& command) {
  Yaml out;
  out.set("name", name).set("image", image);
  out.set("imagePullPolicy", choice_name(c.job.pod.pull_policy));
  out.set("command", Yaml::texts(command));
  out.set("resources", equal_resources(1, kMemoryBytes));
  out.set("securityContext", container_security(c, false));
  return out;
}

Yaml install_shanty(const RenderContext& c) {
  Yaml out = init_container(c, "shanty", c.job.pod.shanty_image,
                            {"/shanty", "agent", "--install", kShantyDir});
  out["name"].comment(
      "Puts the static program with its Python package into the pod; the user's image stays as it "
      "is.");
  out["volumeMounts"].push(mount("shanty", kShantyDir));
  return out;
}

// The values come in by the environment, so that no quoting of the shell is in the way.
Yaml clone_code(const RenderContext& c) {
  const CodeSpec& code = c.job.code;
  const std::string script =
      "set -eu\n"
      "git init -q \"$CODE\" && cd \"$CODE\"\n"
      "if git fetch -q --depth 1 -- \"$REPOSITORY\" \"$REVISION\"; then\n"
      "  git checkout -q --detach FETCH_HEAD --\n"
      "else  # a server that hands out no single commits, or a short hash\n"
      "  git fetch -q -- \"$REPOSITORY\" '+refs/heads/*:refs/remotes/origin/*' "
      "'+refs/tags/*:refs/tags/*'\n"
      "  git checkout -q --detach \"$REVISION\" --\n"
      "fi\n"
      "git log -1 --format='code is commit %H'\n";
  Yaml out = init_container(c, "code", code.git_image, {"/bin/sh", "-c", script});
  Yaml& env = out["env"];
  const auto add = [&](const char* name, const std::string& value) {
    env.push(Yaml::mapping().set("name", name).set("value", value));
  };
  add("REPOSITORY", code.git);
  add("REVISION", code.revision.empty() ? "HEAD" : code.revision);
  add("CODE", kCodeDir);
  add("HOME", kHomeDir);
  add("GIT_TERMINAL_PROMPT", "0");
  out["volumeMounts"].push(mount("code", kCodeDir));
  out["volumeMounts"].push(mount("home", kHomeDir));
  // The volume belongs to root, which git takes for somebody else's directory.
  add("GIT_CONFIG_COUNT", code.secret.empty() ? "1" : "2");
  add("GIT_CONFIG_KEY_0", "safe.directory");
  add("GIT_CONFIG_VALUE_0", kCodeDir);
  if (!code.secret.empty()) {
    add("GIT_CONFIG_KEY_1", "credential.helper");
    add("GIT_CONFIG_VALUE_1", "store --file=/etc/shanty/git/.git-credentials");
    out["volumeMounts"].push(mount("git", "/etc/shanty/git", true));
  }
  return out;
}

}  // namespace

void add_init_containers(const RenderContext& c, Yaml& spec, Yaml& volumes) {
  if (brings_shanty(c) && !c.options.image_volume) {
    spec["initContainers"].push(install_shanty(c));
  }
  if (c.code != CodeSource::kGit) return;
  spec["initContainers"].push(clone_code(c));
  if (c.job.code.secret.empty()) return;
  add_volume(volumes, "git", "secret",
             Yaml::mapping().set("secretName", c.job.code.secret).set("defaultMode", 288));
}

}  // namespace shanty
