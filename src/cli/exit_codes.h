#pragma once

namespace shanty {

// What every verb returns; docs/exit-codes.md.
inline constexpr int kExitDone = 0;
inline constexpr int kExitProblems = 1;  // the job failed, or problems were found
inline constexpr int kExitUsage = 2;
inline constexpr int kExitEnvironment = 3;
inline constexpr int kExitInternal = 64;

}  // namespace shanty
