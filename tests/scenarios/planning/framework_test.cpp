#include "scenarios/planning/framework.h"

#include <doctest/doctest.h>

#include "scenarios/planning/machines.h"

using namespace baechi;
using namespace baechi::literals;

TEST_SUITE("framework") {
  TEST_CASE("a framework's workspace depends on the GPU") {
    const auto held = [](Framework framework, const char* kind) {
      return framework_workspace(framework, *device_kind(kind, ""));
    };
    CHECK(held(Framework::none, "h100") == 0_B);
    CHECK(held(Framework::fsdp, "a100") == Bytes{2 * 8'519'680});
    CHECK(held(Framework::megatron, "a100") == Bytes{2 * 8'519'680} + 4_MiB);
    CHECK(held(Framework::megatron, "h200") == 96_MiB);
    CHECK(adds_in_32_bits({.framework = Framework::megatron}, "bf16"));
    CHECK_FALSE(adds_in_32_bits({.framework = Framework::megatron}, "fp16"));
    CHECK(adds_in_32_bits({.framework = Framework::fsdp}, "bf16"));
    CHECK_FALSE(adds_in_32_bits({.framework = Framework::fsdp, .short_sums = true}, "bf16"));
    CHECK_FALSE(adds_in_32_bits({.framework = Framework::none}, "bf16"));
    CHECK_FALSE(adds_in_32_bits({.framework = Framework::internevo}, "bf16"));
  }

  TEST_CASE("DeepSpeed's stages wait for what they send, and InternEvo broadcasts new weights") {
    CHECK(computes_while_sending(Framework::megatron));
    CHECK_FALSE(computes_while_sending(Framework::deepspeed));
    // 20 of 132 processors are NCCL's.
    CHECK(contention_of(Framework::fsdp).disturbed * 112.0 == doctest::Approx(132.0));
    CHECK(contention_of(Framework::megatron).disturbed == 1.0);
    DataParallelOptions options{.mode = Synchronisation::zero1};
    add_moves({.framework = Framework::deepspeed}, "bf16", options);
    CHECK_FALSE(options.broadcasts);
    add_moves({.framework = Framework::internevo}, "bf16", options);
    CHECK(options.broadcasts);
  }

  // A gradient of 2 bytes: joined 2 + 2, cast 2 + 4, divided 4 + 4, of 4 that are sent: 18 / 4. In
  // 16 bits it is not cast: 8 / 2; nor in 32: 16 / 4. fully_shard joins and casts at once: 6 / 4.
  TEST_CASE("FSDP moves gradients before it sends them, fully_shard also what it gathers") {
    const auto moved = [](const TrainingJob& job, const char* precision, Synchronisation mode) {
      DataParallelOptions options{.mode = mode};
      add_moves(job, precision, options);
      return std::pair(options.before_sum, options.after_gather);
    };
    using S = Synchronisation;
    CHECK(moved({.framework = Framework::fsdp}, "bf16", S::zero3) == std::pair(4.5, 0.0));
    CHECK(moved({.framework = Framework::fsdp, .short_sums = true}, "bf16", S::zero2) ==
          std::pair(4.0, 0.0));
    CHECK(moved({.framework = Framework::fsdp}, "fp32", S::zero3) == std::pair(4.0, 0.0));
    CHECK(moved({.framework = Framework::fsdp2}, "bf16", S::zero3) == std::pair(1.5, 2.0));
    CHECK(moved({.framework = Framework::fsdp2}, "bf16", S::zero2) == std::pair(1.5, 0.0));
    CHECK(moved({.framework = Framework::fsdp}, "bf16", S::zero1) == std::pair(0.0, 0.0));
    CHECK(moved({.framework = Framework::megatron}, "bf16", S::zero3) == std::pair(0.0, 0.0));
  }
}
