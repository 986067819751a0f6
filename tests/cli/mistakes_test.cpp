/// Error messages for malformed, endless, oversized and unusual files and flags.
#include <zlib.h>

#include "tests/cli/session.h"

namespace {

/// `size` zero bytes, compressed by gzip to about a thousandth.
std::string gzip_of_nothing(std::size_t size) {
  z_stream z{};
  constexpr int gzip_format = 16 + MAX_WBITS;
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, gzip_format, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string zeros(std::size_t{1} << 20U, ' '), out, buffer(std::size_t{1} << 16U, '\0');
  for (std::size_t done = 0; done <= size; done += zeros.size()) {
    z.next_in = reinterpret_cast<Bytef*>(zeros.data());
    z.avail_in = static_cast<uInt>(zeros.size());
    do {
      z.next_out = reinterpret_cast<Bytef*>(buffer.data());
      z.avail_out = static_cast<uInt>(buffer.size());
      deflate(&z, done + zeros.size() > size ? Z_FINISH : Z_NO_FLUSH);
      out.append(buffer, 0, buffer.size() - z.avail_out);
    } while (z.avail_out == 0);
  }
  deflateEnd(&z);
  return out;
}

const std::string simulate_split = "simulate toy.json --placement split.json " + two_gpus;

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "a decompression bomb is rejected with its name") {
  write("bomb.json.gz", gzip_of_nothing(std::size_t{400} << 20U));
  refuses("trace info bomb.json.gz --importer baechi",
          "bomb.json.gz: decompresses to over 256 MiB and more than 300 times its ");
}

TEST_CASE_FIXTURE(Session, "an endless or binary file is rejected with its name") {
  CHECK(run("simulate toy.json --placement /dev/zero " + two_gpus).err ==
        "/dev/zero: is not text: its byte 1 is zero\n");
  const auto endless = run("simulate toy.json --placement endless " + two_gpus,
                           "mkfifo endless; (yes > endless &) ; {}");
  CHECK(endless.code == 2);
  CHECK(endless.err == "endless: is over 1024 MiB\n");
  write("wide.json", std::string_view("\xff\xfe{\0}\0", 6));
  CHECK(run("trace info wide.json").err == "wide.json: is UTF-16: save it as UTF-8\n");
  write("empty.json", "");
  CHECK(run("trace info empty.json").err == "empty.json: the file is empty\n");
}

TEST_CASE_FIXTURE(Session, "a byte order mark and Windows line ends are accepted") {
  std::string windows = "\xef\xbb\xbf";
  for (const char c : toy) windows += c == '\n' ? "\r\n" : std::string(1, c);
  write("windows.json", windows);
  CHECK(json("trace info windows.json")["ops"] == 3);
  write("windows_split.json", "\xef\xbb\xbf" + std::string(split));
  CHECK(json("simulate windows.json --placement windows_split.json " + two_gpus)["step_time_us"] ==
        61.0);  // 10 + 1 + 20 + 30
}

TEST_CASE_FIXTURE(Session, "a zstd file may begin with a skippable frame, as pzstd writes it") {
  runs("trace convert toy.json toy.json.zst");
  // Magic number, length in four bytes, contents.
  const std::string skipped("\x50\x2a\x4d\x18\x04\x00\x00\x00size", 12);
  write("skip.json.zst", skipped + read("toy.json.zst"));
  CHECK(json("trace info skip.json.zst")["ops"] == 3);
}

TEST_CASE_FIXTURE(Session, "running out of host memory names the step and the file") {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  MESSAGE("skipped: the address sanitizer itself needs more memory than the limit");
  return;
#endif
#endif
  runs("trace generate layered ops=200000 -o big.json");
  const auto result = run("trace info big.json", "(ulimit -d 40000; timeout 20 {})");
  if (result.code == 0) return;  // the system has no such limit
  if (result.code == 124) {
    MESSAGE("skipped: OpenBLAS of this system waits for more memory when it is loaded");
    return;
  }
  CHECK(result.code == 1);
  CHECK(holds(result.err, "baechi: out of host memory: reading big.json, "));
}

TEST_CASE_FIXTURE(Session, "an option that determines memory use has a limit") {
  refuses("place toy.json --placer search:chains=9000000000000000000 " + two_gpus,
          "search.chains: more than 1024");
  refuses("place toy.json --placer exact_dp:max_ideals=9000000000000000000 " + two_gpus,
          "exact_dp.max_ideals: more than 100000000");
}

TEST_CASE_FIXTURE(Session, "a seed is a non-negative integer") {
  for (const char* seed : {"-1", "99999999999999999999", "1.5", "one"}) {
    CAPTURE(seed);
    refuses(fmt::format("place toy.json --placer random --seed {} {}", seed, two_gpus),
            fmt::format("--seed: '{}' is not a whole number from 0 to", seed));
  }
  CHECK(run("arena --placer single --hidden -1").code == 2);
  runs("place toy.json --placer random --seed 9223372036854775807 " + two_gpus);
}

TEST_CASE_FIXTURE(Session, "an option's value may be a list with blanks after commas") {
  const auto both = json(
      "place toy.json --placer 'search:portfolio=[single, round_robin],evaluations=0' " + two_gpus);
  CHECK(both["status"] == "ok");
  refuses("place toy.json --placer 'search:portfolio=[single, x]' " + two_gpus, "no placer 'x'");
}

// An op's weights and output are 4000 B; b's copy of a's output is another 1000 B.
TEST_CASE_FIXTURE(Session, "a placer that only counts weights is reported with the OOM report") {
  graph("heavy.json", "a1k,w3000 -1000> b1k,w3000 -1000> .");
  const auto placed = [&](const char* memory) {
    return run(fmt::format("place heavy.json --placer exact_dp --devices 2 --memory '{} B'",
                           memory))
        .out;
  };
  CHECK(holds(placed("4500"),
              "memory       exact_dp only counts weights; a step also holds outputs and copies\n"
              "out of memory on gpu1"));
  CHECK(holds(placed("3000"), "no placement fits: op 'a' needs 3.91 KiB"));
  CHECK_FALSE(holds(placed("9000"), "only counts weights"));
  CHECK(holds(placed("2999"), "exact_dp: op 'a' has weights of 2.93 KiB, the largest device"));
}

TEST_CASE_FIXTURE(Session, "--queue and trace convert -o are separate flags") {
  const std::string simulate = "simulate toy.json --placement split.json " + two_gpus;
  CHECK(json(simulate + " --queue program")["step_time_us"] == 61.0);
  CHECK(run(simulate + " --queue last").err ==
        "--queue: 'last' is not one of fifo, priority, program\n");
  runs("trace convert toy.json -o copy.json");
  CHECK(json("trace info copy.json")["ops"] == 3);
}

TEST_CASE_FIXTURE(Session, "the name of an op must not contain a zero byte") {
  write("zero.json", R"({"format": "baechi-trace", "version": 1,
      "ops": [{"name": "a\u0000b", "outputs": []}]})");
  CHECK(run("trace info zero.json").err ==
        "zero.json: graph: the name of op 0, 'a...', has a zero byte\n");
}

TEST_CASE_FIXTURE(Session, "a cycle of many ops is one line that names the first twenty") {
  std::string ops, edges;
  for (int i = 0; i < 5000; ++i) {
    const char* comma = i == 0 ? "" : ",";
    ops += comma + (R"({"name": "op)" + std::to_string(i) + R"(", "outputs": [{"bytes": 1}]})");
    edges += comma + (R"({"from": "op)" + std::to_string(i) + R"(", "output": 0, "to": "op)" +
                      std::to_string((i + 1) % 5000) + R"("})");
  }
  write("round.json", R"({"format": "baechi-trace", "version": 1, "ops": [)" + ops +
                          R"(], "edges": [)" + edges + "]}");
  const std::string answer = run("trace info round.json").err;
  CHECK(answer.starts_with("round.json: graph: a cycle: op0 -> op1 -> op2 -> "));
  CHECK(answer.ends_with(" -> op19 -> (4980 more) -> op0\n"));
}

TEST_CASE_FIXTURE(Session, "a placement of status infeasible, or with split groups") {
  write("none.json", R"({"format": "baechi-placement", "version": 1,
      "status": "infeasible", "detail": "no"})");
  const auto none = run("simulate toy.json --placement none.json " + two_gpus);
  CHECK(none.code == 2);
  CHECK(none.err == "none.json: has no placement to simulate, because its placer found none: no\n");
  CHECK(json(simulate_split)["split_groups"] == 0);
  CHECK_FALSE(holds(run(simulate_split).out, "split "));
  std::string grouped(toy);
  for (const char* op : {R"("name": "a",)", R"("name": "b",)"})
    grouped.insert(grouped.find(op), R"("colocation": ["together"], )");
  write("toy.json", grouped);
  CHECK(json(simulate_split)["split_groups"] == 1);
  CHECK(holds(run(simulate_split).out,
              "split        1 colocation group: 'together' ('a' is on gpu0, 'b' on gpu1)\n"));
}

TEST_CASE_FIXTURE(Session, "an output that cannot be written is refused, with the reason") {
  write("s.yaml",
        "name: s\ngraph: {import: toy.json}\nplacers: [single]\n"
        "cluster: {devices: {count: 1, memory: 1 MB}}\n");
  const struct {
    std::string arguments, message;
  } outputs[] = {
      {"run s.yaml --quiet --out toy.json/results", "toy.json/results: Not a directory"},
      {"run s.yaml --quiet --out /proc/results", "/proc/results: No such file or directory"},
      {"trace generate layered ops=3 -o /nowhere/x.json",
       "/nowhere/x.json: cannot be written: No such file or directory"},
      {"place toy.json --placer search:evaluations=9,trace=/nowhere/x " + two_gpus,
       "/nowhere/x: cannot be written: No such file or directory"},
  };
  for (const auto& [arguments, message] : outputs) {
    CAPTURE(arguments);
    const auto result = run(arguments);
    CHECK(result.code == 2);
    CHECK(result.err == message + "\n");
  }
}

TEST_CASE_FIXTURE(Session, "a flag without a value is not the same as no flag") {
  for (const char* flag : {"--memory-fraction ''", "--bandwidth ''", "--importer ''"}) {
    CAPTURE(flag);
    refuses("bound toy.json " + two_gpus + " " + flag, "the value is empty");
  }
}

TEST_CASE_FIXTURE(Session, "an op without a time on the first device type counts as untimed") {
  write("kinds.json", R"({"format": "baechi-trace", "version": 1,
      "ops": [{"name": "a", "compute_us": {"gpu": null, "cpu": 3}},
              {"name": "b", "compute_us": {"gpu": 2, "cpu": 5}}],
      "controls": [{"from": "a", "to": "b"}]})");
  const Json info = json("trace info kinds.json");
  CHECK(info["compute_us"] == 2.0);
  CHECK(info["critical_path_us"] == 2.0);
}

TEST_CASE_FIXTURE(Session, "a message that quotes a file has no terminal control characters") {
  write("escape.json", R"({"format": "baechi-placement", "version": 1,
      "placement": {"\u001b[2Ja": 0}})");
  const auto result = run("simulate toy.json --placement escape.json " + two_gpus);
  CHECK(result.code == 2);
  CHECK(result.err.find('\x1b') == std::string::npos);
  CHECK(holds(result.err, "the graph has no op 'a'"));
}
