#include "scenarios/planning/framework.h"

#include <doctest/doctest.h>

#include "scenarios/planning/machines.h"
#include "sim/error.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::literals;

TEST_SUITE("frameworks") {
  TEST_CASE("workspaces depend on the GPU's compute capability") {
    const auto held = [](const char* framework, const char* kind) {
      return workspace_of(read_framework(framework), *device_kind(kind, ""));
    };
    CHECK(held("none", "h100") == 0_B);
    CHECK(held("fsdp", "a100") == Bytes{2 * 8'519'680});
    CHECK(held("megatron", "a100") == Bytes{2 * 8'519'680} + 4_MiB);
    CHECK(held("megatron", "h200") == 96_MiB);
    CHECK(held("megatron", "rtx_pro_6000") == 96_MiB);
    CHECK(held("deepspeed", "v100_pytorch") == Bytes{2 * 8'519'680});
  }

  TEST_CASE("gradients are reduced in 32 bits, unless weights or the framework say otherwise") {
    CHECK(reduces_in_fp32(read_framework("megatron"), "bf16"));
    CHECK_FALSE(reduces_in_fp32(read_framework("megatron"), "fp16"));
    CHECK(reduces_in_fp32(read_framework("fsdp2"), "bf16"));
    CHECK_FALSE(reduces_in_fp32(read_framework("fsdp:grad_reduce_dtype=weights"), "bf16"));
    CHECK_FALSE(reduces_in_fp32(read_framework("none"), "bf16"));
    CHECK_FALSE(reduces_in_fp32(read_framework("internevo"), "bf16"));
  }

  TEST_CASE("DeepSpeed's stages wait for what they send, and InternEvo broadcasts new weights") {
    CHECK_FALSE(read_framework("megatron").blocking_p2p);
    CHECK(read_framework("deepspeed").blocking_p2p);
    // 20 of 132 processors are NCCL's.
    CHECK(read_framework("fsdp").overlapped_compute_slowdown * 112.0 == doctest::Approx(132.0));
    CHECK(read_framework("megatron").overlapped_compute_slowdown == 1.0);
    DataParallelOptions options{.mode = Synchronisation::zero1};
    add_moves(read_framework("deepspeed"), "bf16", options);
    CHECK_FALSE(options.broadcasts);
    add_moves(read_framework("internevo"), "bf16", options);
    CHECK(options.broadcasts);
  }

  // A gradient of 2 bytes: joined 2 + 2, cast 2 + 4, divided 4 + 4, of 4 that are sent: 18 / 4. In
  // 16 bits it is not cast: 8 / 2; nor in 32: 16 / 4. fully_shard joins and casts at once: 6 / 4.
  TEST_CASE("FSDP moves gradients before it sends them, fully_shard also what it gathers") {
    const auto moved = [](const char* framework, const char* precision, Synchronisation mode) {
      DataParallelOptions options{.mode = mode};
      add_moves(read_framework(framework), precision, options);
      return std::pair(options.before_sum, options.after_gather);
    };
    using S = Synchronisation;
    CHECK(moved("fsdp", "bf16", S::zero3) == std::pair(4.5, 0.0));
    CHECK(moved("fsdp:grad_reduce_dtype=weights", "bf16", S::zero2) == std::pair(4.0, 0.0));
    CHECK(moved("fsdp", "fp32", S::zero3) == std::pair(4.0, 0.0));
    CHECK(moved("fsdp2", "bf16", S::zero3) == std::pair(1.5, 2.0));
    CHECK(moved("fsdp2", "bf16", S::zero2) == std::pair(1.5, 0.0));
    CHECK(moved("fsdp", "bf16", S::zero1) == std::pair(0.0, 0.0));
    CHECK(moved("megatron", "bf16", S::zero3) == std::pair(0.0, 0.0));
  }

  TEST_CASE("kernels are words or a mapping, also where a file begins from another") {
    const auto kernels = [](const Options::Value& section) {
      std::map<std::string, std::string> said;
      for (const auto& [name, value] : read_framework(section).kernels.children)
        said[name] = value.text;
      return said;
    };
    const auto text = [](const char* word) { return Options::Value{word, ""}; };
    const std::map<std::string, std::string> both{{"eager", "true"}, {"metrics", "2"}};
    CHECK(kernels({"", "", {{"kernels", text("eager+metrics=2")}}}) == both);
    const TemporaryFolder folder;
    folder.write("base.yaml", "kernels: eager\n");
    CHECK(kernels({"",
                   "",
                   {{"like", text(folder.file("base.yaml").c_str())},
                    {"kernels", text("metrics=2")}}}) == both);
  }

  TEST_CASE("a device whose kernels are a framework's sends as that does, unless told otherwise") {
    using Pair = std::array<Sending, 2>;
    const auto sent = [](const char* framework, const char* kind) {
      return usual_sending(read_framework(framework), *device_kind(kind, ""));
    };
    CHECK(sent("none", "a100") == Pair{Sending::beside, Sending::after});
    CHECK(sent("none", "a100_megatron") == Pair{Sending::after, Sending::after});
    CHECK(sent("none:overlap_grad_reduce=true", "a100_megatron") ==
          Pair{Sending::beside, Sending::beside});
  }
}
