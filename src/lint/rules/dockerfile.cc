#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

bool is_image_for_training(const Dockerfile& file) {
  const DockerStage* base = file.base();
  if (base == nullptr) return false;
  for (std::string_view part :
       {"cuda", "pytorch", "torch", "rocm", "nemo", "megatron", "deepspeed"}) {
    if (contains(base->image, part)) return true;
  }
  return std::any_of(file.instructions.begin(), file.instructions.end(),
                     [](const auto& i) { return i.name == "RUN" && i.mentions("torch"); });
}

std::string_view tag_of(std::string_view image) {
  const size_t slash = image.rfind('/');
  const size_t colon = image.find(':', slash == image.npos ? 0 : slash);
  return colon == image.npos ? std::string_view() : image.substr(colon + 1);
}

void movable_base(const Dockerfile& file, Report& report) {
  const DockerStage* base = file.base();
  if (base == nullptr || !is_image_for_training(file) || is_placeholder(base->image)) return;
  const bool is_fixed = contains(base->image, "@") || base->image == "scratch" ||
                        (!tag_of(base->image).empty() && tag_of(base->image) != "latest");
  if (is_fixed || contains(base->image, "$")) return;
  report.add("IMG001", report.places().place(base->offset),
             fmt::format("the base {} is whatever was pushed last: tomorrow's image has another "
                         "torch and another CUDA",
                         in_quotes(base->image)));
}

void devel_base(const Dockerfile& file, Report& report) {
  const DockerStage* base = file.base();
  if (base == nullptr || !contains(tag_of(base->image), "devel")) return;
  const auto instructions = file.final_instructions();
  const bool compiles = std::any_of(instructions.begin(), instructions.end(), [](const auto* i) {
    return i->name == "RUN" &&
           (i->mentions("flash-attn") || i->mentions("flash_attn") || i->mentions("apex") ||
            i->mentions("setup.py") || i->mentions("deepspeed") || i->mentions("nvcc") ||
            i->mentions("make") || i->mentions("no-build-isolation"));
  });
  Finding& finding = report.add(
      "IMG004", report.places().place(base->offset),
      fmt::format("the image stands on {}: compilers and headers are several GB that every node "
                  "pulls",
                  in_quotes(base->image)));
  if (compiles) finding.severity = Severity::kNote;
}

// Calls `see(word)` for each word of a RUN instruction of the image.
template <typename See>
void each_run_word(const Dockerfile& file, const See& see) {
  for (const DockerInstruction* instruction : file.final_instructions()) {
    if (instruction->name != "RUN") continue;
    for (size_t i = 0; i < instruction->words.size(); ++i) see(*instruction, i);
  }
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

// The index of "install" of a command such as `pip install`, `python -m pip install`.
bool is_pip_install(const DockerInstruction& instruction, size_t i) {
  const auto& words = instruction.words;
  if (words[i].text != "install" || i == 0) return false;
  const std::string_view before = base_name(words[i - 1].text);
  return before == "pip" || before == "pip3";
}

// The words after `install` up to the end of the command.
std::vector<const DockerWord*> arguments_after(const DockerInstruction& instruction, size_t i) {
  std::vector<const DockerWord*> out;
  for (size_t j = i + 1; j < instruction.words.size(); ++j) {
    const std::string& text = instruction.words[j].text;
    if (text == ";" || text == "&&" || text == "||" || text == "|") break;
    out.push_back(&instruction.words[j]);
  }
  return out;
}

// "torch==2.3" -> "torch", "torch[extra]>=2" -> "torch".
std::string_view package_of(std::string_view requirement) {
  return requirement.substr(0, requirement.find_first_of("=<>!~[;@ "));
}

void conda(const Dockerfile& file, Report& report) {
  bool is_found = false;
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    const std::string_view command = base_name(instruction.words[i].text);
    const bool installs =
        (command == "conda" || command == "mamba") && i + 1 < instruction.words.size() &&
        (instruction.words[i + 1].text == "install" || instruction.words[i + 1].text == "create" ||
         instruction.words[i + 1].text == "env");
    if (is_found || !installs || !is_image_for_training(file)) return;
    is_found = true;
    report.add(
        "IMG005", report.places().place(instruction.words[i].offset),
        "conda brings its own CUDA, NCCL and Python beside those of the base: gigabytes that "
        "every node pulls, and two NCCLs to choose from");
  });
}

// Whether the image may have a shell that knows `conda activate`, by its base or by what it does.
bool may_know_conda(const Dockerfile& file) {
  const DockerStage* base = file.base();
  const bool is_plain =
      base != nullptr &&
      (base->image.starts_with("nvidia/cuda:") || base->image.starts_with("pytorch/pytorch:") ||
       base->image.starts_with("continuumio/") || base->image.starts_with("ubuntu:"));
  if (!is_plain || find_variable(file.env, "BASH_ENV") != nullptr) return true;
  const std::vector<const DockerInstruction*> all = file.final_instructions();
  return std::any_of(all.begin(), all.end(), [](const DockerInstruction* instruction) {
    if (instruction->name == "SHELL") return true;
    for (const std::string_view sign :
         {"conda.sh", "conda init", "bashrc", "profile", "hook", " -l", "-lc", "-ic", "--login"}) {
      if (instruction->mentions(sign)) return true;
    }
    return false;
  });
}

// `RUN conda activate x && pip install ...`: the shell of RUN and of CMD has no such function.
void conda_activate(const Dockerfile& file, Report& report) {
  if (may_know_conda(file)) return;
  for (const DockerInstruction* instruction : file.final_instructions()) {
    if (instruction->name != "RUN" && instruction->name != "CMD" &&
        instruction->name != "ENTRYPOINT")
      continue;
    const auto& words = instruction->words;
    for (size_t i = 0; i < words.size(); ++i) {
      const bool activates =
          instruction->is_exec_form
              ? words[i].text.starts_with("conda activate")
              : words[i].text == "conda" && i + 1 < words.size() && words[i + 1].text == "activate";
      if (!activates) continue;
      report.add(
          "RUN038", report.places().place(words[i].offset),
          "conda activate is a function of interactive shells, and this one has not read it: "
          "the environment is not entered");
      return;
    }
  }
}

void opencv(const Dockerfile& file, Report& report) {
  const bool has_gl =
      std::any_of(file.instructions.begin(), file.instructions.end(), [](const auto& i) {
        return i.name == "RUN" &&
               (i.mentions("libgl1") || i.mentions("libGL") || i.mentions("mesa") ||
                i.mentions("ffmpeg") || i.mentions("python3-opencv"));  // they depend on it
      });
  if (has_gl) return;
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    if (!is_pip_install(instruction, i)) return;
    for (const DockerWord* word : arguments_after(instruction, i)) {
      const std::string_view package = package_of(word->text);
      if (package != "opencv-python" && package != "opencv-contrib-python") continue;
      Finding& finding =
          report.add("IMG006", report.places().place(word->offset),
                     fmt::format("{} needs libGL of a desktop: `import cv2` fails in "
                                 "this image",
                                 package));
      if (report.source().text.substr(word->offset, package.size()) == package)
        finding.edits.push_back(
            {word->offset + package.size(), word->offset + package.size(), "-headless"});
    }
  });
}

// Its own upgrade is small.
bool installs_only_pip(const std::vector<const DockerWord*>& words) {
  return std::all_of(words.begin(), words.end(), [](const DockerWord* word) {
    const std::string_view package = package_of(word->text);
    return word->text.starts_with("-") || package == "pip" || package == "setuptools" ||
           package == "wheel";
  });
}

void pip_cache(const Dockerfile& file, Report& report) {
  const bool is_off = find_variable(file.env, "PIP_NO_CACHE_DIR") != nullptr;
  bool is_found = false;
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    if (is_off || is_found || !is_pip_install(instruction, i)) return;
    if (installs_only_pip(arguments_after(instruction, i))) return;
    const bool has_flag = instruction.mentions("--no-cache-dir") ||
                          instruction.mentions("type=cache") ||
                          instruction.mentions("cache purge") || instruction.mentions(".cache");
    if (has_flag || !is_image_for_training(file)) return;
    is_found = true;
    Finding& finding =
        report.add("IMG007", report.places().place(instruction.words[i].offset),
                   "pip keeps what it downloaded in the layer; with torch that is some GB");
    const size_t end = instruction.words[i].offset + std::string_view("install").size();
    finding.edits.push_back({end, end, " --no-cache-dir"});
  });
}

// --extra-index-url adds an index to PyPI, and the newest of both is taken: one that ends at an
// older torch is never asked for it. Those of CUDA before 12.6 do.
bool only_adds_old_index(const std::vector<const DockerWord*>& words) {
  constexpr std::string_view kIndex = "download.pytorch.org/whl/cu";
  constexpr int kOldestLive = 126;
  bool is_extra = false;
  for (const DockerWord* word : words) {
    if (word->text.starts_with("--")) is_extra = word->text.starts_with("--extra-index-url");
    const size_t at = word->text.find(kIndex);
    if (!is_extra || at == word->text.npos) continue;
    const std::string_view number = std::string_view(word->text).substr(at + kIndex.size());
    const auto version = count_of(number.substr(0, number.find_first_not_of("0123456789")));
    return version && *version < kOldestLive;
  }
  return false;
}

bool is_git_or_index(const std::vector<const DockerWord*>& words) {
  return std::any_of(words.begin(), words.end(), [](const DockerWord* word) {
    return word->text.starts_with("--index-url") || word->text == "-i" ||
           contains(word->text, "download.pytorch.org/whl/cu") ||
           contains(word->text, "download.pytorch.org/whl/cpu") ||
           contains(word->text, "download.pytorch.org/whl/rocm") ||
           contains(word->text, "whl/nightly") || word->text == "-c" ||
           contains(word->text, "constraint");
  });
}

bool has_torch_in_base(const Dockerfile& file) {
  const DockerStage* base = file.base();
  return base != nullptr &&
         (contains(base->image, "pytorch/pytorch") ||
          contains(base->image, "nvcr.io/nvidia/pytorch") || contains(base->image, "l4t-pytorch") ||
          contains(base->image, "nvcr.io/nvidia/nemo"));
}

// "2.4.0+cu124" as {2, 4, 0}.
std::vector<int64_t> numbers_of(std::string_view version) {
  std::vector<int64_t> out;
  while (!version.empty()) {
    const size_t end = std::min(version.find_first_not_of("0123456789"), version.size());
    const auto number = count_of(version.substr(0, end));
    if (!number) break;
    out.push_back(*number);
    if (end == version.size() || version[end] != '.') break;
    version.remove_prefix(end + 1);
  }
  return out;
}

bool fits_bound(std::string_view bound, std::vector<int64_t> version) {
  const size_t at = bound.find_first_not_of("=<>~!");
  if (at == bound.npos || at == 0) return false;
  const std::string_view op = bound.substr(0, at);
  std::vector<int64_t> wanted = numbers_of(bound.substr(at));
  if (wanted.empty()) return false;
  if (op == "~=" || bound.ends_with(".*")) {
    const size_t same = op == "~=" ? wanted.size() - 1 : wanted.size();
    const bool is_same =
        version.size() >= same &&
        std::equal(wanted.begin(), wanted.begin() + static_cast<long>(same), version.begin());
    return op == "==" || op == "~=" ? is_same && (op == "==" || version >= wanted) : false;
  }
  const size_t size = std::max(wanted.size(), version.size());
  wanted.resize(size);
  version.resize(size);
  if (op == "==") return version == wanted;
  if (op == ">=") return version >= wanted;
  if (op == "<=") return version <= wanted;
  if (op == ">") return version > wanted;
  if (op == "<") return version < wanted;
  return op == "!=" && version != wanted;
}

// Whether the torch of "pytorch/pytorch:2.4.0-cuda12.4-..." is what "torch>=2.3,<2.5" asks for.
bool is_met_by_base(std::string_view requirement, const DockerStage& base) {
  if (!contains(base.image, "pytorch/pytorch:")) return false;
  const std::vector<int64_t> version = numbers_of(tag_of(base.image));
  std::string_view bounds = requirement.substr(package_of(requirement).size());
  if (version.size() < 2 || bounds.empty()) return false;
  while (!bounds.empty()) {
    const size_t comma = bounds.find(',');
    if (!fits_bound(bounds.substr(0, comma), version)) return false;
    bounds = comma == bounds.npos ? std::string_view() : bounds.substr(comma + 1);
  }
  return true;
}

// What is there already, by its name alone or by a bound that it meets, unless pip is told to look
// for another.
bool keeps_what_is_there(const DockerWord& torch, const std::vector<const DockerWord*>& words,
                         const DockerStage& base) {
  return (torch.text == "torch" || is_met_by_base(torch.text, base)) &&
         std::none_of(words.begin(), words.end(), [](const DockerWord* word) {
           return word->text == "-U" || word->text == "--upgrade" || word->text == "--pre" ||
                  word->text == "--force-reinstall" || word->text == "--ignore-installed";
         });
}

void torch_install(const Dockerfile& file, Report& report) {
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    if (!is_pip_install(instruction, i)) return;
    const auto arguments = arguments_after(instruction, i);
    for (const DockerWord* word : arguments) {
      if (package_of(word->text) != "torch") continue;
      const Place place = report.places().place(word->offset);
      if (has_torch_in_base(file)) {
        if (keeps_what_is_there(*word, arguments, *file.base())) continue;
        report.add("VER002", place,
                   fmt::format("this replaces the torch of {}, which was built with its CUDA and "
                               "NCCL",
                               in_quotes(file.base()->image)));
      } else if (word->text == "torch" && only_adds_old_index(arguments)) {
        report.add("VER001", place,
                   "torch without a version beside --extra-index-url: that index ends at an older "
                   "torch, so that pip takes the newest of PyPI, which is for another CUDA");
      } else if (word->text == "torch" && !is_git_or_index(arguments)) {
        report.add("VER001", place,
                   "torch without a version: from 2.11 on that is a build for CUDA 13, which needs "
                   "a driver of 580 or later on every node");
      }
    }
  });
}

// The CUDA of a word such as ".../whl/cu121": 12; of an image "nvidia/cuda:11.8.0-...": 11.
std::optional<int64_t> cuda_major(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return {};
  const std::string_view digits = text.substr(at + mark.size(), 2);
  return count_of(digits);
}

void cuda_of_wheel(const Dockerfile& file, Report& report) {
  const DockerStage* base = file.base();
  if (base == nullptr) return;
  const auto of_base = cuda_major(base->image, "nvidia/cuda:");
  const bool is_devel = contains(base->image, "devel");
  if (!of_base || !is_devel) return;
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    const auto of_wheel = cuda_major(instruction.words[i].text, "whl/cu");
    if (!of_wheel || *of_wheel == *of_base) return;
    report.add("VER003", report.places().place(instruction.words[i].offset),
               fmt::format("torch for CUDA {} on a base with the compiler of CUDA {}: extensions "
                           "built here do not load",
                           *of_wheel, *of_base));
  });
}

void other_nccl(const Dockerfile& file, Report& report) {
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    const std::string_view package = package_of(instruction.words[i].text);
    const bool is_system = package == "libnccl2" || package == "libnccl-dev";
    const bool is_wheel = package == "nvidia-nccl-cu12" || package == "nvidia-nccl-cu13" ||
                          package == "nvidia-nccl-cu11";
    if (!is_system && !is_wheel) return;
    Finding& finding = report.add(
        "VER005", report.places().place(instruction.words[i].offset),
        fmt::format("{} beside the NCCL that torch brings: which one is loaded depends on "
                    "the order of paths",
                    package));
    if (is_system) finding.severity = Severity::kNote;
  });
}

// Packages from elsewhere: "pip install ." installs the code itself.
bool installs_packages(const DockerInstruction& instruction) {
  for (size_t i = 0; i < instruction.words.size(); ++i) {
    if (!is_pip_install(instruction, i)) continue;
    const auto arguments = arguments_after(instruction, i);
    if (installs_only_pip(arguments)) continue;
    for (const DockerWord* word : arguments) {
      const std::string_view text = word->text;
      if (text.starts_with("-r") || text.starts_with("--requirement")) return true;
      const bool is_local = text.starts_with(".") || text.starts_with("/") ||
                            text.starts_with("$") || contains(text, ".whl");
      if (!text.starts_with("-") && !text.starts_with("http") && !is_local) return true;
    }
  }
  return false;
}

// "COPY . /app", or a directory of the context from whose requirements packages are installed.
bool copies_code(const DockerInstruction& instruction) {
  const auto& words = instruction.words;
  const bool is_copy = instruction.name == "COPY" || instruction.name == "ADD";
  if (!is_copy || words.size() != 2) return false;
  const std::string_view from = words[0].text;
  return from == "." || from == "./";
}

bool copies_directory(const DockerInstruction& instruction) {
  const auto& words = instruction.words;
  const bool is_copy = instruction.name == "COPY" || instruction.name == "ADD";
  if (!is_copy || words.size() != 2) return false;
  const std::string_view from = words[0].text;
  const std::string_view name = from.substr(from.rfind('/') + 1);
  return from.find("://") == from.npos && !contains(from, "requirement") &&
         !contains(from, "docker") && (name.empty() || !contains(name, ".")) &&
         (words[1].text.starts_with('/') || words[1].text.starts_with('$'));
}

// pip install -r requirements.txt, which came with a directory where no COPY names it.
bool file_reads_requirements(const Dockerfile& file) {
  return std::any_of(file.instructions.begin(), file.instructions.end(),
                     [](const DockerInstruction& one) {
                       return one.name == "RUN" && one.mentions("-r requirements");
                     });
}

void code_before_packages(const Dockerfile& file, Report& report) {
  const DockerInstruction* copy = nullptr;
  const bool names_requirements = std::any_of(
      file.instructions.begin(), file.instructions.end(), [](const DockerInstruction& one) {
        return (one.name == "COPY" || one.name == "ADD") && one.mentions("require");
      });
  for (const DockerInstruction* instruction : file.final_instructions()) {
    const bool reads_copied =
        !names_requirements && copies_directory(*instruction) && file_reads_requirements(file);
    if ((copies_code(*instruction) || reads_copied) && copy == nullptr) copy = instruction;
    const bool installs = instruction->name == "RUN" && installs_packages(*instruction);
    if (!installs || copy == nullptr || !is_image_for_training(file)) continue;
    report.add(
        "IMG008", report.places().place(copy->offset),
        "all code is copied before the packages are installed: each change of a line installs "
        "them again and makes new layers for every node");
    return;
  }
}

// Where "<2.5" begins in "torch<2.5", or npos: ">log" is a redirection that is meant.
size_t bound_at(std::string_view requirement) {
  const size_t at = requirement.find_first_of("<>");
  const std::string_view package = package_of(requirement);
  if (at == requirement.npos || at == 0 || package.empty() || package.starts_with("-") ||
      std::isdigit(static_cast<unsigned char>(package[0])) != 0) {
    return requirement.npos;
  }
  const size_t version = requirement.find_first_not_of("<>", at);
  const bool is_bound = version != requirement.npos &&
                        (requirement[version] == '=' ||
                         std::isdigit(static_cast<unsigned char>(requirement[version])) != 0);
  return is_bound ? at : requirement.npos;
}

// "torch>=2.4" without quotes: to the shell, ">" begins a redirection.
void bound_without_quotes(const Dockerfile& file, Report& report) {
  each_run_word(file, [&](const DockerInstruction& instruction, size_t i) {
    if (instruction.is_exec_form || !is_pip_install(instruction, i)) return;
    for (const DockerWord* word : arguments_after(instruction, i)) {
      const size_t at = bound_at(word->text);
      const std::string_view raw =
          std::string_view(report.source().text).substr(word->offset, word->text.size());
      if (at == std::string::npos || raw != word->text) continue;  // quotes
      const bool reads = word->text.find('<') != std::string::npos;
      Finding& finding =
          report.add("VER006", report.places().place(word->offset),
                     fmt::format("the shell takes \"{}\" of {} for a redirection: {}",
                                 word->text.substr(at), word->text,
                                 reads ? "it looks for a file of that name, and the build fails"
                                       : fmt::format("pip gets {} without its bound",
                                                     std::string_view(word->text).substr(0, at))));
      finding.edits.push_back({word->offset, word->offset, "\""});
      const size_t end = word->offset + word->text.size();
      finding.edits.push_back({end, end, "\""});
    }
  });
}

constexpr Rule kRules[] = {
    {"IMG001", DockerfileRule{movable_base}},
    {"IMG004", DockerfileRule{devel_base}},
    {"IMG005", DockerfileRule{conda}},
    {"IMG006", DockerfileRule{opencv}},
    {"IMG007", DockerfileRule{pip_cache}},
    {"IMG008", DockerfileRule{code_before_packages}},
    {"RUN038", DockerfileRule{conda_activate}},
    {"VER001 VER002", DockerfileRule{torch_install}},
    {"VER003", DockerfileRule{cuda_of_wheel}},
    {"VER005", DockerfileRule{other_nccl}},
    {"VER006", DockerfileRule{bound_without_quotes}},
};

}  // namespace

extern const std::span<const Rule> kDockerfileRules = kRules;

}  // namespace shanty::lint
