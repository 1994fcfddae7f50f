#include "doctor/verdict_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doctor/case.h"
#include "text/json_fields.h"
#include "text/table.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr int kJsonVersion = 1;
constexpr size_t kShownEvidence = 6;  // of a finding, in text
constexpr size_t kShownNames = 8;

std::string place_of(const Evidence& evidence) {
  return evidence.line == 0 ? evidence.file : fmt::format("{}:{}", evidence.file, evidence.line);
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShownNames; ++i) {
    out += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  if (names.size() > kShownNames) out += fmt::format(" and {} more", names.size() - kShownNames);
  return out;
}

std::string who(const Subject& subject) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (!subject.ranks.empty()) add(rank_list(subject.ranks));
  if (!subject.nodes.empty()) add("node " + join(subject.nodes));
  if (!subject.pods.empty()) add("pod " + join(subject.pods));
  if (!subject.devices.empty()) add(join(subject.devices));
  if (!subject.files.empty()) add(join(subject.files));
  return out;
}

std::string indented_table(Table table, const VerdictStyle& style) {
  const std::string rows =
      format_table(table, {.width = style.width > 10 ? style.width - 2 : 0, .color = false});
  std::string out;
  for (size_t at = 0; at < rows.size();) {
    const size_t end = rows.find('\n', at);
    out += "  " + rows.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string_view colour_of(Severity severity) {
  return severity == Severity::kError     ? sgr::kRed
         : severity == Severity::kWarning ? sgr::kYellow
                                          : sgr::kDim;
}

std::string finding_text(const Finding& finding, const VerdictStyle& style) {
  const std::string head = fmt::format("{}: {} [{}]", severity_name(finding.severity),
                                       printable(finding.message), finding.code);
  // Wrapped as one cell, so that it fits narrow terminals.
  const std::string rows = format_table({.header = {}, .rows = {{head}}, .right_aligned = {}},
                                        {.width = style.width, .color = false});
  std::string out =
      styled(rows.substr(0, rows.size() - 1), colour_of(finding.severity), style.color) + "\n";
  Table table;
  const auto row = [&table](std::string label, const std::string& text) {
    table.rows.push_back({std::move(label), text});
  };
  row("class", fmt::format("{}, confidence {:.0f} %",
                           finding.failure_class.empty() ? "-" : finding.failure_class,
                           finding.confidence * 100));
  if (const std::string names = who(finding.subject); !names.empty()) row("who", names);
  for (size_t i = 0; i < finding.evidence.size() && i < kShownEvidence; ++i) {
    row(i == 0 ? "evidence" : "",
        printable(place_of(finding.evidence[i])) + ": " + printable(finding.evidence[i].text));
  }
  if (finding.evidence.size() > kShownEvidence) {
    row("", fmt::format("and {} more lines (--json has them)",
                        finding.evidence.size() - kShownEvidence));
  }
  const auto list = [&](const char* label, const std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i) row(i == 0 ? label : "", printable(texts[i]));
  };
  list("not", finding.ruled_out);
  list("do now", finding.fix);
  list("prevent", finding.prevent);
  return out + indented_table(std::move(table), style);
}

nlohmann::json finding_json(const Finding& finding) {
  nlohmann::json evidence = nlohmann::json::array();
  for (const Evidence& line : finding.evidence) {
    evidence.push_back({{"file", line.file}, {"line", line.line}, {"text", line.text}});
  }
  return {{"code", finding.code},
          {"class", finding.failure_class},
          {"severity", severity_name(finding.severity)},
          {"confidence", finding.confidence},
          {"subject",
           {{"ranks", finding.subject.ranks},
            {"nodes", finding.subject.nodes},
            {"pods", finding.subject.pods},
            {"devices", finding.subject.devices},
            {"files", finding.subject.files}}},
          {"message", finding.message},
          {"why", finding.why},
          {"evidence", evidence},
          {"ruled_out", finding.ruled_out},
          {"fix", finding.fix},
          {"prevent", finding.prevent}};
}

// Log lines are quoted in messages: what they hold of Markdown's own characters is only text.
std::string escape_markdown(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_[]<>&#|~!").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string code_span(std::string_view text) {
  std::string out = printable(text);
  for (char& c : out) {
    if (c == '`') c = '\'';
  }
  return "`" + out + "`";
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_list(std::string_view title, const std::vector<std::string>& texts) {
  if (texts.empty()) return "";
  std::string out = fmt::format("<h3>{}</h3><ul>", title);
  for (const std::string& text : texts) out += "<li>" + escape_html(text) + "</li>";
  return out + "</ul>\n";
}

constexpr std::string_view kStyle = R"(body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;
max-width:60rem;padding:0 1rem;color:#1b1f24;background:#fff}
section{border-left:4px solid #888;padding:.2rem 1rem;margin:1.5rem 0}
.error{border-color:#c62828}.warning{border-color:#e08a00}.info{border-color:#5a7}
h2{font-size:1.1rem;margin:.3rem 0}h3{font-size:.9rem;margin:.8rem 0 .2rem;color:#555}
pre{background:#f4f5f7;padding:.6rem;overflow-x:auto;font-size:.85rem}ul{margin:.2rem 0}
.meta{color:#555}@media(prefers-color-scheme:dark){body{background:#14171a;color:#dde}
pre{background:#22272d}h3,.meta{color:#9aa}})";

}  // namespace

std::string verdict_text(const Diagnosis& diagnosis, VerdictStyle style) {
  std::string out;
  for (const Finding& finding : diagnosis.findings) {
    if (!out.empty()) out += "\n";
    out += finding_text(finding, style);
  }
  if (diagnosis.findings.empty()) out = "no failure found\n";
  return out;
}

std::string verdict_json(const Diagnosis& diagnosis) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& finding : diagnosis.findings) findings.push_back(finding_json(finding));
  const nlohmann::json out = {
      {"version", kJsonVersion}, {"findings", findings}, {"notes", diagnosis.notes}};
  return print_json_pretty(out) + "\n";
}

std::string verdict_markdown(const Diagnosis& diagnosis) {
  std::string out;
  for (const Finding& finding : diagnosis.findings) {
    out += fmt::format("### {}: {}\n\n{} `{}`, class `{}`, confidence {:.0f} %", finding.code,
                       escape_markdown(finding.message), severity_name(finding.severity),
                       finding.code, finding.failure_class, finding.confidence * 100);
    if (const std::string names = who(finding.subject); !names.empty()) {
      out += "; " + escape_markdown(names);
    }
    out += "\n\n";
    for (const Evidence& line : finding.evidence) {
      out += fmt::format("- {} {}\n", code_span(place_of(line)), code_span(line.text));
    }
    const auto list = [&out](std::string_view title, const std::vector<std::string>& texts) {
      if (texts.empty()) return;
      out += fmt::format("\n**{}**\n\n", title);
      for (const std::string& text : texts) out += "- " + escape_markdown(text) + "\n";
    };
    list("Not", finding.ruled_out);
    list("Do now", finding.fix);
    list("Prevent", finding.prevent);
    out += "\n";
  }
  return out.empty() ? "No failure found.\n" : out;
}

std::string verdict_html(const Diagnosis& diagnosis) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>shanty "
      "doctor</title>\n<style>{}</style></head><body>\n"
      "<h1>shanty doctor</h1>\n",
      kStyle);
  if (diagnosis.findings.empty()) out += "<p>No failure found.</p>\n";
  for (const Finding& finding : diagnosis.findings) {
    const std::string names = who(finding.subject);
    out += fmt::format(
        "<section class=\"{0}\"><h2>{1} [{2}]</h2>\n<p class=\"meta\">{0}, class {3}, confidence "
        "{4:.0f} %{5}</p>\n",
        severity_name(finding.severity), escape_html(finding.message), escape_html(finding.code),
        escape_html(finding.failure_class), finding.confidence * 100,
        names.empty() ? "" : "; " + escape_html(names));
    if (!finding.evidence.empty()) out += "<h3>Evidence</h3><pre>";
    for (const Evidence& line : finding.evidence) {
      out += escape_html(place_of(line) + ": " + line.text) + "\n";
    }
    if (!finding.evidence.empty()) out += "</pre>\n";
    out += html_list("Why not something else", finding.ruled_out);
    out += html_list("Do now", finding.fix);
    out += html_list("Prevent", finding.prevent);
    out += "</section>\n";
  }
  out += html_list("Notes", diagnosis.notes);
  return out + "</body></html>\n";
}

}  // namespace shanty
