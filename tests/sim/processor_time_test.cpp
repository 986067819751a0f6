#include "sim/processor_time.h"

#include <doctest/doctest.h>

#include <thread>

using namespace baechi;
using namespace std::chrono_literals;

namespace {

thread_local std::chrono::nanoseconds spent{};

/// A clock that only burn() moves.
std::chrono::nanoseconds spent_here() {
  return spent;
}
void burn(std::chrono::milliseconds time) {
  spent += time;
}

}  // namespace

TEST_SUITE("sim") {
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
}
