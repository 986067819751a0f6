#include <pthread.h>

#include <future>

#include "cli/progress.h"
#include "tests/cli/session.h"

namespace {

/// A shell command for Session::run: runs the program in the background, waits until `ready`
/// succeeds, sends `signal`, and returns the program's exit code.
std::string interrupt_when(const std::string& ready, const std::string& signal) {
  return "{} & p=$!; while ! { " + ready + "; } && kill -0 $p; do sleep 0.02; done 2>/dev/null; " +
         "kill -" + signal + " $p; wait $p";
}

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE("an interrupt received by an older thread sets the flag") {
  std::promise<void> end;
  std::jthread older([&end] { end.get_future().wait(); });
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt("going on");
    CHECK_FALSE(interrupt.wanted());
    pthread_kill(older.native_handle(), signal);
    while (!interrupt.wanted()) std::this_thread::sleep_for(1ms);
  }
  end.set_value();
}

TEST_CASE("an ignored interrupt stays ignored") {
  std::signal(SIGTERM, SIG_IGN);
  {
    const Interrupt interrupt("going on");
    raise(SIGTERM);
    CHECK_FALSE(interrupt.wanted());
  }
  CHECK((std::signal(SIGTERM, SIG_DFL) == SIG_IGN));
}

TEST_CASE_FIXTURE(Session, "SIGTERM, as sent by Slurm, keeps finished runs") {
  write("slow.sh", "#!/bin/sh\ntouch started\nsleep 1\nexit 3\n");
  write("sweep.yaml",
        "name: sweep\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s, latency: 0}}\n"
        "placers: [round_robin, 'exec:slow.sh', m_topo, m_etf]\n");
  const auto result = run("run sweep.yaml -j 1 --out results",
                          "chmod +x slow.sh; " + interrupt_when("test -e started", "TERM"));
  CHECK_MESSAGE(result.code == 130, result.err);
  CHECK(holds(result.err, "interrupted: finishing the runs that have begun"));
  CHECK(holds(result.err, "interrupted: 2 of 4 runs are done;"));
  CHECK(holds(read("results/results.csv"), "round_robin"));
}

TEST_CASE_FIXTURE(Session, "SIGTERM ends a search with the best placement so far") {
  // The search has begun when the thread that waits for interrupts exists.
  const auto result = run("place toy.json --placer search:seconds=1000 -o best.json " + two_gpus,
                          interrupt_when("cat /proc/$p/task/*/comm | grep -q interrupts", "TERM"));
  CHECK_MESSAGE(result.code == 130, result.err);
  CHECK(holds(read("best.json"), "\"placement\""));
}

TEST_CASE_FIXTURE(Session, "SIGTERM ends a duel and saves the worst instance so far") {
  // One device is worse than m_etf from the first instances on; a million instances take minutes.
  const auto result = run("arena duel single m_etf --evaluations 1000000 -o worst",
                          interrupt_when("cat /proc/$p/task/*/comm | grep -q interrupts", "TERM"));
  CHECK_MESSAGE(result.code == 130, result.err);
  CHECK(holds(result.err, "interrupted: taking the worst instance so far"));
}

TEST_CASE_FIXTURE(Session, "SIGTERM ends the arena with the finished instances") {
  write_arena(*this);
  runs("arena --instances mine --placer single --update-best");
  const std::string known = read("mine/known.json");
  const TemporaryFolder other_folder;  // external programs may not write files next to known.json
  const std::string started = other_folder.file("started");
  write("slow.sh", "#!/bin/sh\ntouch " + started + "\nsleep 1\nexit 3\n");
  const auto result =
      run("arena --instances mine --placer exec:./slow.sh --update-best --format json",
          "chmod +x slow.sh; " + interrupt_when("test -e " + started, "TERM"));
  CHECK_MESSAGE(result.code == 130, result.err);
  CHECK(holds(result.err, "interrupted: 1 runs are missing;"));
  const auto answer = Json::parse(result.out);
  CHECK(answer["instances"] == 1);
  CHECK(answer["failures"] == 1);
  CHECK(answer["ranking"][0]["name"] == "single");
  CHECK(read("mine/known.json") == known);
}

TEST_CASE_FIXTURE(Session, "SIGTERM without results to keep also ends with 130") {
  write("slow.sh", "#!/bin/sh\ntouch started\nexec sleep 100\n");
  CHECK(run("place toy.json --placer exec:./slow.sh " + two_gpus,
            "chmod +x slow.sh; " + interrupt_when("test -e started", "TERM"))
            .code == 130);
}

TEST_CASE_FIXTURE(Session, "a file beyond the shell's size limit is an error, not a signal") {
  const auto result = run("trace generate layered ops=20000 -o big.json", "(ulimit -f 8; {})");
  CHECK(result.code == 2);
  CHECK(result.err == "big.json: cannot be written: File too large\n");
  CHECK_FALSE(std::filesystem::exists(file("big.json")));
}

TEST_CASE_FIXTURE(Session, "a closed pipe, or a closed or full output, does not crash") {
  const auto gone = run("list --format markdown", "( {} ; echo $? >code.txt ) | true");
  CHECK(gone.err.empty());
  CHECK(read("code.txt") == "0\n");
  CHECK(run("list", "{} >&-").code == 0);
  const auto full = run("list", "{} >/dev/full");
  CHECK(full.code == 1);
  CHECK(holds(full.err, "cannot write the answer"));
}
