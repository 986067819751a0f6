#include "sim/file_aside.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "scenarios/report/html.h"
#include "sim/processor_time.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

namespace {

namespace fs = std::filesystem;

thread_local const std::function<void(const std::string&)>* watch_fsync = nullptr;

/// The names, below `folder`, of what fsync() writes out during `call`, each with what is in
/// `folder` at that time: "written: there, there".
std::vector<std::string> written_out(const TemporaryFolder& folder,
                                     const std::function<void()>& call) {
  std::vector<std::string> all;
  const fs::path root = folder.file("");
  const std::function<void(const std::string&)> note = [&](const std::string& path) {
    std::vector<std::string> there;
    for (const auto& entry : fs::directory_iterator(root))
      there.push_back(entry.path().filename().string());
    std::ranges::sort(there);
    std::string line = fs::relative(path, root).string() + ":";
    for (const std::string& name : there) line += " " + name;
    all.push_back(line);
  };
  watch_fsync = &note;
  call();
  watch_fsync = nullptr;
  return all;
}

}  // namespace

/// Replaces the C library's in this program.
extern "C" int fsync(int file) {
  if (watch_fsync != nullptr)
    (*watch_fsync)(fs::read_symlink("/proc/self/fd/" + std::to_string(file)).string());
  return static_cast<int>(syscall(SYS_fsync, file));
}

TEST_SUITE_BEGIN("files");
TEST_CASE("a durable file is on the disk before it has its name, and that before its use") {
  const TemporaryFolder folder;
  const std::vector<std::string> seen = written_out(folder, [&] {
    AtomicFile file(folder.file("a.txt"));
    file.print("text");
    file.take_name_durably();
  });
  CHECK(seen == std::vector<std::string>{"a.txt.part: a.txt.part", ".: a.txt"});
  CHECK(folder.read("a.txt") == "text");
}

TEST_CASE("results are on disk before the rename") {
  const TemporaryFolder folder;
  const Results results = run_all(sweep_of(swept));
  const std::vector<std::string> seen =
      written_out(folder, [&] { write_results(folder.file("."), results); });
  CHECK(seen == std::vector<std::string>{"results.csv.part: results.csv.part results.sqlite.part",
                                         ".: results.csv results.sqlite.part",
                                         "results.sqlite.part: results.csv results.sqlite.part",
                                         ".: results.csv results.sqlite"});
}

TEST_CASE("a file is replaced atomically, also through a symbolic link") {
  const TemporaryFolder folder;
  folder.write("old", "old");
  fs::create_symlink(folder.file("old"), folder.file("link"));
  {
    AtomicFile file(folder.file("link"));
    file.print("half of a te");
  }
  CHECK(folder.read("old") == "old");
  CHECK(folder.num_files() == 2);
  write_aside(folder.file("link"), "new");
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(folder.read("old") == "new");
}

TEST_CASE("a pipe or a device is written, not replaced") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_aside(pipe, "text");
  char text[8] = {};
  CHECK(read(reader, text, sizeof text) == 4);
  close(reader);
  CHECK(std::string(text) == "text");
  CHECK(fs::is_fifo(pipe));
  CHECK_REFUSED(write_aside("/dev/full", "text"),
                "/dev/full: cannot be written: No space left on device");
  CHECK(fs::is_character_file("/dev/full"));
  CHECK(message<InputError>([&] {
          write_aside(folder.file("."), "text");
        }).ends_with("cannot be written: Is a directory"));
}

namespace {

thread_local std::chrono::nanoseconds spent{};

/// A clock that only burn() moves.
std::chrono::nanoseconds spent_here() { return spent; }
void burn(std::chrono::milliseconds time) { spent += time; }

}  // namespace

TEST_SUITE_BEGIN("sim");
TEST_CASE("the CPU time of a task is that of all threads that work on it") {
  ProcessorTime task(spent_here);
  burn(100ms);  // before it
  {
    const TaskPart part(&task);
    burn(5ms);
    const auto work = part_of_this_task([](std::chrono::milliseconds time) { burn(time); });
    std::thread a(work, 7ms), b(work, 8ms);
    a.join();
    b.join();
    work(1ms);  // on this thread, which is counted already
    burn(2ms);
    std::thread(burn, 50ms).join();  // another thread, outside the task
  }
  burn(100ms);                 // after it
  CHECK(task.used() == 23ms);  // 5 + 7 + 8 + 1 + 2
}

TEST_CASE("time of a thread for another task, or for none, is not counted") {
  ProcessorTime outer(spent_here), inner(spent_here);
  {
    const TaskPart part(&outer);
    burn(1ms);
    {
      const TaskPart other(&inner);
      burn(10ms);
      const TaskPart again(&outer);
      burn(2ms);
    }
    {
      const TaskPart none(nullptr);
      burn(100ms);
    }
    burn(4ms);
  }
  CHECK(outer.used() == 7ms);  // 1 + 2 + 4
  CHECK(inner.used() == 10ms);
  CHECK(TaskPart::task_here() == nullptr);
}

TEST_CASE("two threads that each compute for a while use twice as much") {
  const auto compute = [] {
    for (const auto begin = thread_time(); thread_time() < begin + 2ms;) {
    }
  };
  ProcessorTime task;
  {
    const TaskPart part(&task);
    std::thread a(part_of_this_task(compute)), b(part_of_this_task(compute));
    a.join();
    b.join();
  }
  CHECK(task.used() >= 4ms);
}
