#include "agent/agent_spec.h"

#include <charconv>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/files.h"

namespace shanty {

NLOHMANN_JSON_SERIALIZE_ENUM(InjectKind, {{InjectKind::kKill, "kill"},
                                          {InjectKind::kStop, "stop"},
                                          {InjectKind::kSlow, "slow"},
                                          {InjectKind::kExit, "exit"},
                                          {InjectKind::kOom, "oom"},
                                          {InjectKind::kNetcut, "netcut"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Inject, kind, rank, node_rank, step, generation,
                                                exit_code, factor, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AgentSpec, run_dir, run_id, wanted_node_rank, slots,
                                                nodes_here, coordinator_host, coordinator_port, tls,
                                                token, address, parent_pid, command, working_dir,
                                                env, python_dir, elastic_run_id, role,
                                                elastic_max_restarts, total_steps, direct_log_ranks,
                                                grace_s, restart_grace_s, orphan_limit_s,
                                                first_contact_limit_s, stop_signals, injects)

namespace {

constexpr off_t kMaxSpecBytes = 16 << 20;

struct KindName {
  std::string_view name;
  InjectKind kind;
};
constexpr KindName kKinds[] = {{"kill", InjectKind::kKill}, {"stop", InjectKind::kStop},
                               {"slow", InjectKind::kSlow}, {"exit", InjectKind::kExit},
                               {"oom", InjectKind::kOom},   {"netcut", InjectKind::kNetcut}};

template <typename Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool set_inject_key(Inject& inject, std::string_view key, std::string_view value) {
  if (key == "rank") return read_number(value, inject.rank) && inject.rank >= 0;
  if (key == "node") return read_number(value, inject.node_rank) && inject.node_rank >= 0;
  if (key == "step") return read_number(value, inject.step);
  if (key == "generation") return read_number(value, inject.generation) && inject.generation > 0;
  if (key == "code") {
    return read_number(value, inject.exit_code) && inject.exit_code >= 0 && inject.exit_code < 256;
  }
  if (key == "factor") {
    return read_number(value, inject.factor) && inject.factor > 1 && inject.factor <= 100;
  }
  if (key == "seconds") {
    return read_number(value, inject.seconds) && inject.seconds > 0 && inject.seconds <= 3600;
  }
  return false;
}

Status check_target(const Inject& inject, std::string_view text) {
  if (inject.kind == InjectKind::kNetcut) {
    if (inject.node_rank >= 0 || inject.rank >= 0) return {};
    return Error{fmt::format("--inject {}: say which node: netcut:node=1,step=60", text)};
  }
  if (inject.rank >= 0) return {};
  return Error{fmt::format("--inject {}: say which rank, as in kill:rank=1,step=60", text)};
}

}  // namespace

Result<Inject> parse_inject(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  Inject inject;
  const auto* known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const KindName& entry) { return entry.name == kind; });
  if (known == std::end(kKinds)) {
    return Error{fmt::format(
        "--inject {}: unknown fault \"{}\"; expected kill, stop, slow, exit, oom or netcut", text,
        kind)};
  }
  inject.kind = known->kind;
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const size_t equals = part.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    if (!set_inject_key(inject, part.substr(0, equals), value)) {
      return Error{
          fmt::format("--inject {}: cannot use \"{}\"; expected rank=N, step=N, "
                      "generation=N, code=N, factor=X, node=N or seconds=X",
                      text, part)};
    }
  }
  TRY_STATUS(check_target(inject, text));
  return inject;
}

// MessagePack, because arguments and paths may hold bytes that JSON text cannot say.
std::string encode_agent_spec(const AgentSpec& spec) {
  std::string out;
  nlohmann::json::to_msgpack(nlohmann::json(spec), out);
  return out;
}

Result<AgentSpec> decode_agent_spec(std::string_view text) {
  try {
    return nlohmann::json::from_msgpack(text).get<AgentSpec>();
  } catch (const nlohmann::json::exception& e) {
    return Error{fmt::format("reading the agent's spec: {}", e.what())};
  }
}

Result<int> make_spec_descriptor(const std::string& content) {
  Fd fd(::memfd_create("shanty-spec", MFD_CLOEXEC));
  if (!fd.valid()) return errno_error("creating a memory file");
  TRY_STATUS(write_all(fd.get(), content).context("filling a memory file"));
  return fd.release();
}

Result<std::string> read_spec_descriptor(int number) {
  Fd fd(number);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return errno_error(fmt::format("descriptor {}", number));
  if (st.st_size > kMaxSpecBytes) return Error{"the spec is larger than 16 MiB"};
  std::string content(static_cast<size_t>(st.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n =
        ::pread(fd.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n <= 0) return errno_error(fmt::format("reading descriptor {}", number));
    done += static_cast<size_t>(n);
  }
  return content;
}

}  // namespace shanty
