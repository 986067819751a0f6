#include "scenarios/run/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "sim/random.h"

namespace baechi {
namespace {

constexpr std::string_view magic = "baechi journal 4\n";
constexpr std::chrono::seconds to_disk_every{5};
constexpr std::size_t first_window = std::size_t{1} << 20U;  // bytes read at once
constexpr std::size_t read_with_a_row = std::size_t{1} << 16U;

constexpr std::array peak_parts{&PeakMemory::weights,         &PeakMemory::gradients,
                                &PeakMemory::optimizer_state, &PeakMemory::activations,
                                &PeakMemory::workspace,       &PeakMemory::copies};

struct Frame {
  std::uint32_t length = 0, check = 0;  ///< of the record
  std::uint64_t key = 0, id = 0;
};

std::uint32_t check_of(const Frame& frame, std::string_view bytes) {
  Hash hash;
  hash.add(static_cast<std::int64_t>(frame.key));
  hash.add(static_cast<std::int64_t>(frame.id));
  hash.add(bytes);
  return static_cast<std::uint32_t>(hash.value() ^ (hash.value() >> 32U));
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  template <class T>
  void number(T n) {
    static_assert(std::is_trivially_copyable_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &n, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  void maybe(const auto& value) {
    number<std::uint8_t>(value ? 1 : 0);
    number<std::int64_t>(value ? count_of(*value) : 0);
  }
  void maybe_real(const std::optional<double>& value) {
    number<std::uint8_t>(value ? 1 : 0);
    number(value.value_or(0.0));
  }
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }

 private:
  static std::int64_t count_of(Duration d) { return d.count(); }
  static std::int64_t count_of(Bytes b) { return b.count; }
  std::string& out_;
};

class JournalReader {
 public:
  explicit JournalReader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T n;
    const std::string_view bytes = take(sizeof(T));
    std::memcpy(&n, bytes.data(), bytes.size());
    return n;
  }
  template <class T>
  std::optional<T> maybe() {
    const bool there = number<std::uint8_t>() != 0;
    const T value{number<std::int64_t>()};
    return there ? std::optional<T>(value) : std::nullopt;
  }
  std::optional<double> maybe_real() {
    const bool there = number<std::uint8_t>() != 0;
    const auto value = number<double>();
    return there ? std::optional(value) : std::nullopt;
  }
  template <NamedEnum E>
  E value() {
    const std::size_t i = number<std::uint8_t>();
    if (i >= all<E>().size()) throw std::runtime_error("a journal's record has no such value");
    return all<E>()[i];
  }
  std::string text() { return std::string(take(number<std::uint32_t>())); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) throw std::runtime_error("a journal's record is too short");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::string_view bytes_;
};

void read_into(RunResult& row, std::string_view bytes) {
  JournalReader in(bytes);
  row.status = in.value<Status>();
  row.lower_bound = in.maybe<Duration>();
  row.placing = std::chrono::nanoseconds(in.number<std::int64_t>());
  row.value = in.maybe<Duration>();
  row.peak = in.maybe<Bytes>();
  row.moved = in.maybe<Bytes>();
  if (in.number<std::uint8_t>() != 0) {
    PeakMemory& peak = row.at_peak.emplace();
    for (const auto part : peak_parts) peak.*part = Bytes{in.number<std::int64_t>()};
    peak.distinguished = in.number<std::uint8_t>() != 0;
  }
  if (in.number<std::uint8_t>() != 0) {
    Utilisation& utilisation = row.utilisation.emplace();
    for (const auto& [word, part] : utilisation_parts) utilisation.*part = in.maybe_real();
  }
  row.detail = in.text();
  row.placed_by = in.text();
  row.placement = in.text();
  for (auto facts = in.number<std::uint32_t>(); facts > 0; --facts) {
    std::string name = in.text();
    row.facts.insert_or_assign(std::move(name), in.number<double>());
  }
}

/// The frame of the first record of `bytes`; nothing if the record is incomplete.
std::optional<Frame> whole_record(std::string_view bytes) {
  Frame frame;
  if (bytes.size() < sizeof frame) return std::nullopt;
  std::memcpy(&frame, bytes.data(), sizeof frame);
  bytes.remove_prefix(sizeof frame);
  if (bytes.size() < frame.length || check_of(frame, bytes.substr(0, frame.length)) != frame.check)
    return std::nullopt;
  return frame;
}

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw std::runtime_error(
      fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno)));
}

void read_at(int file, char* into, std::size_t size, std::uint64_t at, const std::string& path) {
  while (size > 0) {
    const ssize_t got = pread(file, into, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(path, "cannot be read");
    into += got;
    at += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
}

}  // namespace

void append_record(std::string& records, const RunResult& row) {
  const std::size_t begin = records.size();
  records.resize(begin + sizeof(Frame));
  Writer out(records);
  out.number(static_cast<std::uint8_t>(row.status));
  out.maybe(row.lower_bound);
  out.number<std::int64_t>(row.placing.count());
  out.maybe(row.value);
  out.maybe(row.peak);
  out.maybe(row.moved);
  out.number<std::uint8_t>(row.at_peak ? 1 : 0);
  if (row.at_peak) {
    for (const auto part : peak_parts) out.number<std::int64_t>((*row.at_peak.*part).count);
    out.number<std::uint8_t>(row.at_peak->distinguished ? 1 : 0);
  }
  out.number<std::uint8_t>(row.utilisation ? 1 : 0);
  if (row.utilisation)
    for (const auto& [word, part] : utilisation_parts) out.maybe_real((*row.utilisation).*part);
  out.text(row.detail);
  out.text(row.placed_by);
  out.text(row.placement);
  out.number(static_cast<std::uint32_t>(row.facts.size()));
  for (const auto& [name, value] : row.facts) {
    out.text(name);
    out.number(value);
  }
  const std::string_view bytes = std::string_view(records).substr(begin + sizeof(Frame));
  Frame frame{.length = static_cast<std::uint32_t>(bytes.size()), .key = row.key, .id = row.id};
  frame.check = check_of(frame, bytes);
  std::memcpy(records.data() + begin, &frame, sizeof frame);
}

Journal::Journal(std::string path, const Sweep& sweep, bool keep, std::chrono::milliseconds wait)
    : path_(std::move(path)), sweep_(sweep), at_(sweep.num_runs(), 0) {
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  open_locked(wait);
  const bool was_empty = std::filesystem::file_size(path_) == 0;
  try {
    if (keep)
      load();
    else
      refuse_rows();
    if (end_ == 0) write(magic);
    if (ftruncate(file_, static_cast<off_t>(end_)) != 0) fail(path_, "cannot be cut");
  } catch (...) {
    if (was_empty) remove();
    close(file_);
    throw;
  }
}

Journal::~Journal() { close(file_); }

void Journal::open_locked(std::chrono::milliseconds wait) {
  while (true) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) fail(path_, "cannot be opened");
    if (!lock(wait)) {
      close(file_);
      throw InputError(fmt::format(
          "{}: another baechi is running into this folder; choose another --out", path_));
    }
    if (is_at_path()) return;
    close(file_);  // the other process removed the file when it ended
  }
}

/// False if another process keeps the lock for longer than `wait`. True on a file system without
/// locks, where nothing prevents concurrent use.
bool Journal::lock(std::chrono::milliseconds wait) const {
  const auto start = std::chrono::steady_clock::now();
  for (bool printed = false; flock(file_, LOCK_EX | LOCK_NB) != 0; printed = true) {
    if (errno != EWOULDBLOCK) return true;
    if (std::chrono::steady_clock::now() - start >= wait) return false;
    if (!printed)
      fmt::print(stderr, "{}: waiting for another baechi that has this folder open\n", path_);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Whether the open file is still the one at path_.
bool Journal::is_at_path() const {
  struct stat opened{}, named{};
  return fstat(file_, &opened) == 0 && stat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Calls `take_record` with the key of each complete record, with end_ at its beginning, and leaves
/// end_ after the last one. Returns the number of records refused.
std::size_t Journal::scan(const std::function<bool(std::uint64_t key)>& take_record) {
  const std::uint64_t size = std::filesystem::file_size(path_);
  std::string start(std::min<std::uint64_t>(size, magic.size()), '\0');
  read_at(file_, start.data(), start.size(), 0, path_);
  if (!magic.starts_with(start))
    throw InputError(fmt::format("{}: not a journal of this program", path_));
  if (start.size() < magic.size()) return 0;

  std::size_t refused = 0;
  std::string window;    // a part of the file
  std::size_t used = 0;  // bytes of the window before end_
  for (end_ = magic.size();;) {
    std::optional<Frame> frame = whole_record(std::string_view(window).substr(used));
    if (!frame) {
      // The record is torn, or larger than the rest of the window.
      const std::uint64_t left = size - end_;
      if (window.size() - used == left) return refused;
      window.resize(
          std::min<std::uint64_t>(left, std::max(first_window, 2 * (window.size() - used))));
      used = 0;
      read_at(file_, window.data(), window.size(), end_, path_);
      continue;
    }
    if (!take_record(frame->key)) ++refused;
    const std::size_t length = sizeof(Frame) + frame->length;
    end_ += length;
    used += length;
  }
}

void Journal::load() {
  std::vector<std::pair<std::uint64_t, std::size_t>> ids;  // (key, id)
  for (std::size_t id = 0; id < sweep_.num_runs(); ++id)
    ids.emplace_back(sweep_.key(sweep_.run(id)), id);
  std::ranges::sort(ids);
  const std::size_t strangers = scan([&](std::uint64_t key) {
    const auto [first, last] =
        std::ranges::equal_range(ids, key, {}, &std::pair<std::uint64_t, std::size_t>::first);
    for (auto i = first; i != last; ++i) {
      if (at_[i->second] == 0) ++size_;
      at_[i->second] = end_;
    }
    return first != last;
  });
  if (strangers > 0)
    throw InputError(
        fmt::format("--resume: {} holds {} runs of another scenario or version; choose another "
                    "--out, or remove the file to start again",
                    path_, strangers));
}

/// Throws InputError if the file has rows.
void Journal::refuse_rows() {
  const std::size_t rows = scan([](std::uint64_t /*key*/) { return false; });
  if (rows > 0)
    throw InputError(
        fmt::format("{} holds {} runs of a sweep that did not end: --resume continues "
                    "from there; to start again, remove the file",
                    path_, rows));
  end_ = 0;
}

void Journal::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(end_));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(path_, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(put));
    end_ += static_cast<std::uint64_t>(put);
  }
}

void Journal::to_disk() {
  const auto now = std::chrono::steady_clock::now();
  if (now - on_disk_ < to_disk_every) return;
  fdatasync(file_);
  on_disk_ = now;
}

void Journal::add(std::span<const RunResult> rows) {
  std::string records;
  for (const RunResult& row : rows) append_record(records, row);
  add(records);
}

void Journal::add(std::string_view records) {
  const std::lock_guard lock(mutex_);
  std::string fresh;
  std::vector<std::pair<std::size_t, std::uint64_t>> places;  // (id, where)
  while (!records.empty()) {
    Frame frame;
    std::memcpy(&frame, records.data(), sizeof frame);
    const std::size_t length = sizeof frame + frame.length;
    if (at_.at(frame.id) == 0) {
      places.emplace_back(frame.id, end_ + fresh.size());
      fresh += records.substr(0, length);
    }
    records.remove_prefix(length);
  }
  write(fresh);
  for (const auto& [id, at] : places) at_[id] = at;
  size_ += places.size();
  to_disk();
}

bool Journal::has(std::size_t id) const {
  const std::lock_guard lock(mutex_);
  return at_[id] != 0;
}

std::size_t Journal::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

/// The record after the frame at `at`. Most rows are requested in the order of the file, so the
/// following bytes are read ahead. mutex_ is locked.
std::string Journal::record(std::uint64_t at) const {
  const auto window = [&](std::size_t size) {
    if (at >= window_at_ && at + size <= window_at_ + window_.size())
      return std::string_view(window_).substr(at - window_at_);
    std::string read(std::min<std::uint64_t>(end_ - at, std::max(size, read_with_a_row)), '\0');
    read_at(file_, read.data(), read.size(), at, path_);
    window_ = std::move(read);
    window_at_ = at;
    return std::string_view(window_);
  };
  Frame frame;
  std::memcpy(&frame, window(sizeof frame).data(), sizeof frame);
  return std::string(window(sizeof frame + frame.length).substr(sizeof frame, frame.length));
}

std::optional<RunResult> Journal::row(std::size_t id) const {
  std::string bytes;
  {
    const std::lock_guard lock(mutex_);
    if (at_[id] == 0) return std::nullopt;
    bytes = record(at_[id]);
  }
  RunResult row = sweep_.row(sweep_.run(id));
  read_into(row, bytes);
  return row;
}

void Journal::visit(const VisitRow& visit) const {
  for (std::size_t id = 0; id < at_.size(); ++id)
    if (const std::optional<RunResult> found = row(id)) visit(*found);
}

void Journal::remove() { std::filesystem::remove(path_); }

}  // namespace baechi
