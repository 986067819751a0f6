#include "sim/file_aside.h"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

namespace baechi {

FileAside::FileAside(std::string path)
    : path_(std::move(path)), file_(std::fopen((path_ + ".part").c_str(), "wb")) {
  if (!file_) throw std::runtime_error(fmt::format("{}.part: cannot be written", path_));
}

FileAside::~FileAside() {
  if (file_) std::remove((path_ + ".part").c_str());
}

void FileAside::print(std::string_view text) {
  whole_ = whole_ && std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
}

void FileAside::take_name() {
  if (std::fflush(file_.get()) != 0 || !whole_)
    throw std::runtime_error(fmt::format("{}: cannot be written whole (disk full?)", path_));
  file_.reset();
  std::filesystem::rename(path_ + ".part", path_);
}

void write_aside(const std::string& path, std::string_view text) {
  FileAside file(path);
  file.print(text);
  file.take_name();
}

}  // namespace baechi
