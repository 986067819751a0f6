#include "placers/external/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "sim/error.h"

namespace baechi::external {
namespace {

namespace fs = std::filesystem;

/// landlock_ruleset_attr as of version 6, which older headers lack.
struct RulesetAttributes {
  std::uint64_t files = 0, net = 0, scoped = 0;
};

// All rights except to run programs and to list folders, which are never restricted.
constexpr std::uint64_t of_one_file = (1U << 1U) | (1U << 2U) | (1U << 14U);  // write, read, cut
constexpr std::uint64_t of_folders = 0x3ff0;  // remove, make, move between folders
constexpr std::uint64_t signals = 1U << 1U;   // scoped: outside of the sandbox

long version() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/// The rights of `all` that version `v` supports: moving since version 2, truncating since 3.
std::uint64_t known(std::uint64_t all, long v) {
  if (v < 3) all &= ~std::uint64_t{1U << 14U};
  if (v < 2) all &= ~std::uint64_t{1U << 13U};
  return all;
}

/// Keeps all rights at and below `path`.
void allow(int rules, const fs::path& path, long v) {
  const int at = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (at < 0) return;
  const bool folder = fs::is_directory(fs::symlink_status(path));
  landlock_path_beneath_attr rule{};
  rule.allowed_access = known(folder ? of_one_file | of_folders : of_one_file, v);
  rule.parent_fd = at;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U);
  close(at);
}

}  // namespace

Guard kernel_guard() {
  const long v = version();
  return v < 1 ? Guard::nothing : v < 6 ? Guard::files : Guard::files_and_signals;
}

Fd sandbox_without(const std::string& hidden) {
  const long v = version();
  if (hidden.empty() || v < 1) return Fd();
  std::error_code wrong;
  const fs::path path = fs::canonical(hidden, wrong);
  if (wrong) throw InputError(fmt::format("{}: {}", hidden, wrong.message()));
  const RulesetAttributes attributes{.files = known(of_one_file | of_folders, v),
                                     .scoped = v < 6 ? 0 : signals};
  const std::size_t size = v < 4   ? sizeof attributes.files
                           : v < 6 ? 2 * sizeof attributes.files
                                   : sizeof attributes;
  Fd rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0U)));
  // Rules only add rights, so they are added to the siblings of the path at each of its folders.
  for (fs::path inner = path; inner.has_relative_path(); inner = inner.parent_path())
    for (const auto& entry : fs::directory_iterator(inner.parent_path(), wrong))
      if (entry.path() != inner && !entry.is_symlink(wrong)) allow(rules.number(), entry.path(), v);
  return rules;
}

bool enter_sandbox(int rules) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
         syscall(SYS_landlock_restrict_self, rules, 0U) == 0;
}

}  // namespace baechi::external
