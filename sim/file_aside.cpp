#include "sim/file_aside.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "sim/error.h"

namespace baechi {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// fsync of a file or folder.
void to_disk(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int failed = file < 0 ? errno : (fsync(file) == 0 ? 0 : errno);
  if (file >= 0) close(file);
  // File systems that cannot sync say EINVAL or EROFS.
  if (failed != 0 && failed != EINVAL && failed != EROFS)
    throw InputError(fmt::format("{}: cannot be written to the disk: {}", path, reason(failed)));
}

void rename(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) throw InputError(fmt::format("{}: cannot be written: {}", to, error.message()));
}

}  // namespace

PendingFile::PendingFile(const std::string& given) : path(given), last(given) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::is_regular_file(there)) last = fs::canonical(path, error).string();
  if (last.empty()) last = path;
  const bool replaced = !fs::exists(there) || fs::is_regular_file(there);
  first = replaced ? last + ".part" : last;
}

void PendingFile::take_name() const {
  if (first != last) rename(first, last);
}

AtomicFile::AtomicFile(const std::string& path)
    : pending_(path), file_(std::fopen(pending_.first.c_str(), "wb")) {
  if (!file_)
    throw InputError(fmt::format("{}: cannot be written: {}", pending_.path, reason(errno)));
}

AtomicFile::~AtomicFile() {
  if (file_) pending_.drop();
}

void AtomicFile::flush() {
  if (std::fflush(file_.get()) != 0 || !whole_)
    throw InputError(fmt::format("{}: cannot be written: {}", pending_.path, reason(errno)));
}

void AtomicFile::take_name() {
  flush();
  file_.reset();
  pending_.take_name();
}

void AtomicFile::take_name_durably() {
  flush();
  file_.reset();
  if (pending_.first != pending_.last) rename_durably(pending_.first, pending_.last);
}

void rename_durably(const std::string& from, const std::string& to) {
  to_disk(from);
  rename(from, to);
  const std::string folder = std::filesystem::path(to).parent_path().string();
  to_disk(folder.empty() ? "." : folder);
}

void write_aside(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.print(text);
  file.take_name();
}

}  // namespace baechi
