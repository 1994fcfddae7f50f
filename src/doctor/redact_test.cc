#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/diagnose.h"
#include "doctor/verdict_text.h"
#include "logs/scan.h"

namespace shanty {
namespace {

using testing::HasSubstr;
using testing::Not;

Diagnosis of_line(const std::string& text) {
  Diagnosis diagnosis;
  Finding finding;
  finding.code = "RUN102";
  finding.message = "rank 0 raised first: " + text;
  finding.evidence = {{"a.log", 1, text}};
  finding.ruled_out = {text};
  finding.fix = {text};
  finding.prevent = {text};
  diagnosis.findings = {finding};
  diagnosis.notes = {text};
  return diagnosis;
}

std::string all_forms(const Diagnosis& diagnosis) {
  return verdict_text(diagnosis) + verdict_json(diagnosis) + verdict_markdown(diagnosis) +
         verdict_html(diagnosis);
}

// What `line` must not tell any more, in any form.
void expect_hidden(const std::string& line, const std::string& secret) {
  EXPECT_THAT(all_forms(redacted(of_line(line))), Not(HasSubstr(secret))) << line;
}

TEST(Redact, HidesKeysOfAllServices) {
  expect_hidden("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCY", "wJalrXUtnFEMI");
  expect_hidden("aws_secret_access_key: 'wJalrXUtnFEMIK7MDENGbPxRfiCY'", "wJalrXUtnFEMI");
  expect_hidden("aws_session_token = FwoGZXIvYXdzEBYaD", "FwoGZXIvYXdzEBYaD");
  expect_hidden("credentials ASIAY34FZKBOKMUTVV7A expired", "ASIAY34FZKBOKMUTVV7A");
  expect_hidden("HF_TOKEN=hf_AbCdEfGhIjKlMn", "hf_AbCdEf");
  expect_hidden("login with hf_AbCdEfGhIjKlMn failed", "hf_AbCdEf");
  expect_hidden("wandb login 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef");
  expect_hidden("WANDB_API_KEY='0123456789abcdef0123456789abcdef01234567'", "0123456789abcdef");
  expect_hidden("github_pat_11ABCDEFG0abcdefgh rejected", "11ABCDEFG0");
  expect_hidden("gho_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F");
  expect_hidden("nvapi-0123456789abcdefgh", "0123456789abcdefgh");
  expect_hidden("Authorization: Bearer abcdefgh12345", "abcdefgh12345");
  expect_hidden("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz");
  expect_hidden("password=abc", "=abc");
  expect_hidden("cloning https://me:s3cr3t@git.example.com/x.git", "s3cr3t");
  expect_hidden("GET https://b.example.com/x?sv=1&sig=aBcD%2F12 failed", "aBcD%2F12");
}

TEST(Redact, LeavesCountsOfTokensAlone) {
  EXPECT_THAT(all_forms(redacted(of_line("consumed tokens: 88899584 at step 12"))),
              HasSubstr("88899584"));
  EXPECT_THAT(all_forms(redacted(of_line("c10d::ProcessGroupNCCL at 10:04:05"))),
              HasSubstr("c10d::ProcessGroupNCCL at 10:04:05"));
  EXPECT_THAT(all_forms(redacted(of_line("n:2139:2250 [0] NCCL INFO x"))), HasSubstr("2139:2250"));
}

TEST(Redact, HidesAddressesOfBothFamilies) {
  expect_hidden("connect to host_10.20.30.40 failed", "10.20.30.40");
  expect_hidden("[2001:db8::17]:29500", "db8::17");
  expect_hidden("[FD00:10::AB]:29500", "10::AB");
  expect_hidden("fe80::a0ec:26ff:fe84:f001%eth0", "a0ec");
  expect_hidden("2001:0DB8:0000:0000:0000:FF00:0042:8329", "FF00");
  expect_hidden("gateway ip-10-0-12-75 left", "10-0-12-75");
}

TEST(Redact, HidesWhoRanItEverywhere) {
  for (const char* path :
       {"/home/jdoe42/x.py", "/home1/jdoe42/x.py", "/Users/jdoe42/x.py", "/data/users/jdoe42/x.py",
        "/home/users/j/jdoe42/x.py", R"(C:\Users\jdoe42\x.py)"}) {
    expect_hidden(path, "jdoe42");
  }
  expect_hidden("jdoe42@login1:~$ python x.py", "jdoe42");
  expect_hidden("mail jdoe42@example.org", "jdoe42");
  // Known from its home directory, met elsewhere.
  expect_hidden("File \"/home/jdoe42/x.py\": no /scratch/jdoe42/data", "jdoe42");
}

// Who is only named by others is somebody too.
TEST(Redact, HidesPeersAndMastersThatSayNothing) {
  LogScanner scanner;
  const auto source = memory_source(
      "[rank4]:[W810 23:02:42.934129975 TCPStore.cpp:125] [c10d] recvValue failed on "
      "SocketImpl(fd=102, addr=[glm-node02]:50360, remote=[glm-node01]:40027): Failed to recv, got "
      "0 bytes. Connection was likely closed.\n"
      "worker0:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote "
      "peer deepbox.cluster.local<41109>\n");
  scanner.scan(*source,
               {.name = "logs/gpu-77/rank_4.log", .around_unix_ns = 1, .time_at = nullptr});
  CaseFiles files;
  files.logs = scanner.finish();
  const std::string told = all_forms(redacted(diagnose(files)));
  for (const char* name : {"glm-node01", "glm-node02", "deepbox", "gpu-77", "worker0:"}) {
    EXPECT_THAT(told, Not(HasSubstr(name)));
  }
}

}  // namespace
}  // namespace shanty
