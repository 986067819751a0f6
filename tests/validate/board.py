"""The board's scores, and the questions that rows become; the program's answers are made up."""
import os
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "validate/published"))

import board  # noqa: E402
import kernels  # noqa: E402
import llama_cpp  # noqa: E402
import nvidia  # noqa: E402
import open_trainings  # noqa: E402
import steps  # noqa: E402
import torchgpipe  # noqa: E402
from board import Scored  # noqa: E402

ANSWER = {"step_time_us": 2e6, "flops": 1.0, "fits": True, "peak_bytes": 1, "last_peak_bytes": 1, "weight_bytes": 1.0,
          "kept_bytes": 1}


class Made:
    """A program that keeps the questions, and answers all alike."""

    def __init__(self, answer=None):
        self.answer, self.questions = answer or ANSWER, []

    def ask(self, questions):
        self.questions += questions
        return [self.answer for _ in questions]


def compared(score, files, answer=None):
    """The comparison of a folder with these files, and what was asked."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        program = Made(answer)
        result = board.run_blocks(program, {"block": score(board.Data(folder, program))})["block"]
    return result, program.questions


class Scores(unittest.TestCase):
    def test_errors_are_relative_to_what_was_measured(self):
        errors = board.errors_of([Scored(measured=10.0, simulated=11.0), Scored(measured=10.0, simulated=7.0)])
        self.assertAlmostEqual(errors["mean"], 0.2)
        self.assertAlmostEqual(errors["bias"], -0.1)

    def test_the_baseline_is_the_median_rate_of_rows_alike(self):
        rows = [Scored(measured=m, work=1.0, alike="a") for m in (1.0, 2.0, 6.0)]
        self.assertEqual([row.simulated for row in board.baseline_of(rows + [Scored(measured=1.0)])], [2.0] * 3)

    def test_each_doubling_of_the_size_counts_alike(self):
        # Two rows of 1 to 2 are 10 % off, one of 4 to 8 is 40 %: (10 + 40) / 2.
        rows = [Scored(measured=1.0, simulated=1.1, size=1.0), Scored(measured=1.0, simulated=0.9, size=1.5),
                Scored(measured=1.0, simulated=1.4, size=5.0)]
        self.assertAlmostEqual(board.errors_of(rows)["log_mean"], 0.25)

    def test_a_choice_is_made_by_the_rows_of_other_families(self):
        # The setting halves a's error and doubles b's. b decides for a: it is dropped there, and a row is 40 % off. a
        # decides for b: it stays, and b is 40 % off. At hand, both are asked with it: 20 and 40 %.
        rows = [Scored(measured=1.0, simulated=1.2, family="a", without={"s": 1.4}, inferred=("s",)),
                Scored(measured=1.0, simulated=1.4, family="b", without={"s": 1.2}, inferred=("s",))]
        left_out = board.left_out_of(rows, "family")
        self.assertAlmostEqual(left_out["mean"], 0.4)
        self.assertEqual((left_out["free"], left_out["rows"]), (1, 2))

    def test_a_choice_without_rows_of_other_families_is_dropped(self):
        rows = [Scored(measured=1.0, simulated=1.0, family="a", without={"s": 1.5}, inferred=("s",)),
                Scored(measured=1.0, simulated=1.0, family="b")]
        self.assertAlmostEqual(board.left_out_of(rows, "family")["mean"], 0.25)

    def test_a_page_has_pictures_and_no_links(self):
        comparison = board.Comparison()
        comparison.rows = [Scored(what="<a>", measured=1.0, simulated=2.0), Scored(measured=2.0, simulated=2.0)]
        block = {"name": "b", "summary": "", "fitted": "nothing", "baseline": "", "published": "", "files": "",
                 "family": "model", "fitted_rows": "", "free": ""}
        page = board.to_html([board.Score(block, comparison, None)], [])
        self.assertIn("&lt;a&gt;: measured 1, simulated 2 (100.0 %)", page)
        self.assertEqual((page.count("<circle"), page.count("http"), page.count("src=")), (4, 0, 0))


class Files(unittest.TestCase):
    def test_a_field_has_a_place_and_an_empty_one_says_nothing(self):
        table = board.Table('a,b\n1,\n"x\ny",2\n3\n', "f.csv")
        self.assertEqual(table.rows[0].whole("b", 1, unsaid=7), 7)
        with self.assertRaisesRegex(board.InputError, "^f.csv:2:3: b '' is not a whole number of at least 1$"):
            table.rows[0].whole("b", 1)
        self.assertEqual(table.rows[1].line, "f.csv:3:1")
        self.assertEqual(table.odd, [("f.csv:5:1", "f.csv:5:1: 1 values, not 2 as in the header")])

    def test_a_table_is_read_as_programs_write_it(self):
        table = board.Table('\ufeff"note", "b" ,a\r\n"mine, all","2", 1\r\n', "f.csv")  # as spreadsheets save it
        self.assertEqual([table.rows[0].whole(name) for name in "ab"], [1, 2])
        with tempfile.TemporaryDirectory() as folder:
            for text in (b"gpu,n\n\xe9,1\n", b""):  # Latin-1, and nothing
                with open(os.path.join(folder, "t.csv"), "wb") as file:
                    file.write(text)
                result = board.Comparison()
                rows = board.Data(folder, None).read("t.csv", result)
                self.assertEqual([row.whole("n") for row in rows], [1] if text else [])
            at = f"{folder}/t.csv:1:1"
            self.assertEqual(result.skipped, [(at, f"{at}: no line that names the columns")])

    def test_an_unknown_option_is_named_alone(self):
        error = {"error": "llama has no option 'x' (options: a, b)"}
        result, _ = compared(open_trainings.score_torchtitan, {"measured/torchtitan/training.csv": TITAN}, error)
        self.assertEqual([why.split(": ", 1)[1] for _, why in result.skipped], ["llama has no option 'x'"] * 2)


TITAN = """system,model,gpus,tp,pp,cp,seq,local_batch,global_batch,activation_checkpointing,compile,float8,async_tp,schedule,tokens_per_s_per_gpu
h100_96gb,llama3.1-405b,512,8,8,1,8192,32,256,full,1,tensorwise,1,1f1b,100
h100_96gb,llama3.1-8b,8,,,2,8192,1,4,selective,0,,,,2048
"""


class Questions(unittest.TestCase):
    def test_convolutions_of_a_visit_are_asked_as_the_generators_count_them(self):
        # 2 x 4 x 8 x 8 outputs of 3 x 3 x 6 / 2 products each; numbers read and written: 2 x 6 x 16 x 16, 108 weights, 512.
        text = "system,dtype,batch,channels,size,filters,kernel,stride,groups,ms\nh100_sxm,fp16,2,6,16,4,3,2,2,0.5\n"
        result, (asked,) = compared(kernels.score_convolutions, {"measured/torch/convolutions.csv": text}, {"times_us": [400.0]})
        self.assertEqual((asked["device"], asked["kernels"]), (
            "h100_pytorch", [["GroupedConv2d", 2 * 512 * 27, 2 * (3072 + 108 + 512), "fp16"]]))
        self.assertEqual([(row.measured, row.simulated) for row in result.rows], [(500.0, 400.0)])

    def test_torchtitan_splits_a_batch_into_as_many_micro_batches_as_stages(self):
        result, (large, whole, small, _) = compared(open_trainings.score_torchtitan, {"measured/torchtitan/training.csv": TITAN})
        self.assertEqual(large["micro_batch"], "4")  # 32 samples, 8 stages
        self.assertEqual((large["zero"], large["sequence"], large["overlap"]), ("2", "true", "true"))
        self.assertEqual(small["micro_batch"], "1")  # empty fields of tp and pp say nothing
        self.assertEqual((small["zero"], small.get("sequence"), small["options"]["kernels"]["eager"]), ("3", None, "true"))
        self.assertAlmostEqual(result.rows[0].measured, 256 * 8192 / 100 / 512)
        # Both rows are also asked without what is inferred of them.
        self.assertEqual([list(row.without) for row in result.rows], [["zero=2"], ["balanced=false"]])
        self.assertEqual(whole["zero"], "1")

    def test_blooms_rows_have_the_layers_that_their_parameters_say(self):
        # 195e9 parameters, of which 250,880 x 14,400 are embeddings: 76.9 layers of 12 x 14,400^2. 181e9 of 14,336: 71.9.
        result, _ = compared(open_trainings.score_bigscience, {"measured/bigscience/a100_steps.csv": (
            "section,size,gpus,hidden,layers,heads,dp,tp,pp,mbs,gbs,s_per_iteration\n"
            "Choosing the fastest 3D Topology,195B,352,13312,96,64,,8,11,1,2048,197\n"
            "GBS Variations,181B,384,12288,96,64,4,8,12,4,2048,117\n")})
        self.assertEqual([row.what.split(", t")[0] for row in result.rows], ["h 14400, 77 layers", "h 14336, 72 layers"])
        self.assertIn(" d 4 p 11,", result.rows[0].what)  # 352 / 8 / 11

    def test_a_recipe_is_that_of_the_rows_plan(self):
        columns = "task,release,model,system,gpus,precision,gbs,mbs,seq,tp,pp,cp,vp,ep,step_s_computed,fsdp\n"
        _, (llama, deepseek) = compared(nvidia.score_nemo, {"measured/nemo/megatron_bridge.csv": columns + (
            "pretrain,26.02,LLAMA3_70B,DGX-GB200,64,BF16,128,1,8192,1,1,1,1,1,10,64\n"
            "pretrain,26.06,DeepSeekV3,DGX-B200,256,MXFP8,4096,1,4096,1,8,1,2,32,20,\n")})
        # llama3_workload_base_configs.py: use_megatron_fsdp, cpu_offloading_num_layers=20.
        self.assertEqual((llama["zero"], llama["offload_layers"], llama["framework"]["grad_reduce_dtype"]), ("3", "20", "weights"))
        # deepseek_workload_base_configs.py of v0.5.0: mla_up_proj and mlp; 32 ranks of experts on 4 nodes (DeepEP).
        self.assertEqual(deepseek["framework"]["recompute_modules"], ["mla_up_proj", "mlp"])
        self.assertEqual((deepseek["overlap_experts"], deepseek["options"]["kernels"]["dispatch_once"]), ("true", "4"))
        self.assertNotIn("host_op", deepseek)

    def test_samples_per_second_of_a_hugging_face_recipe(self):
        # hf-mistral/launch_7b.sh: 16 samples a GPU, 4 passes, LoRA of rank 8; 512 samples in 512 / 16 s, of which tests take 79 / 479: 30257 / 128
        # = 237 forward passes, a third of one of the 400 of 100 steps each.
        result, (asked,) = compared(nvidia.score_dgxc, {"measured/dgxc/training.csv": (
            "page,title,system,gpus,precision,gbs,layers,pp,vp,step_s,tokens_per_s,samples_per_s,mfu,release\n"
            "hf-mistral/README_7b.md,Mistral 7b 24.02 BF16,H100,8,BF16,,,,,,,16,,v24.11.1\n")})
        self.assertEqual((asked["batch"], asked["micro_batch"], asked["zero"], asked["recompute"]), ("512", "16", "3", "full"))
        self.assertEqual((asked["framework"], asked["options"]["config"]), ("fsdp", {"like": "3-8b", "lora_dropout": "0.1", "lora_rank": "8"}))
        self.assertAlmostEqual(result.rows[0].measured, 32.0 * 400 / 479)

    def test_a_step_of_a_model_is_asked_of_the_device_under_pytorch(self):
        result, questions = compared(steps.score_h100_steps, {"measured/h100_steps/steps.csv": (
            "source,model,layers,batch,precision,step_ms\nTrioSim,vgg,13,128,tf32,2500\nTrioSim,vgg,13,128,tf32,-1\n")})
        self.assertEqual(questions, [{
            "ask": "step", "generator": "vgg", "device": "h100_pytorch",
            "options": {"batch": 128, "layers": 13, "kernels": {"fuse_modules": False}},
            "transforms": [{"precision": {"to": "tf32", "except": "loss"}}]}])
        self.assertAlmostEqual(result.rows[0].error(), 2 / 2.5 - 1)
        self.assertIn(":3:25: step_ms '-1' is not a number", result.skipped[0][1])


class LlamaCpp(unittest.TestCase):
    SPEED = "family,gpu,gpus,power_limit_w,model,size_gib,params_b,test,tokens,tokens_per_s,sd,build\n"

    def asked(self, score, name, header, rows, **answer):
        return compared(score, {f"measured/llama_bench/{name}.csv": header + "".join(row + "\n" for row in rows)}, answer)

    def test_the_output_is_one_layer_more(self):
        # As llama.cpp's buffers show for 32 layers.
        self.assertEqual([llama_cpp.starts_of(32, n) for n in (1, 2, 4, 6)],
                         [[f"layer_{first}" for first in firsts] for firsts in
                          ([], [17], [9, 17, 25], [6, 11, 17, 22, 28])])

    def test_stages_of_torchgpipe_begin_at_the_op_behind_the_cut(self):
        # ResNet-101: 4 modules, then 11 a block; 44 = 4 + 3 x 11 + 7 is behind the second convolution of the fourth block.
        # U-Net: a level down is 22 modules, 30 = 22 + 2 convolutions of 4; 180 = 130 + 2 x 22 + up, concat, a convolution.
        self.assertEqual(torchgpipe.starts_of("resnet101", "44+92+124+110"), ["layer2.0/conv3", "layer3.5/conv1", "layer3.16/conv2"])
        self.assertEqual(torchgpipe.starts_of("unet_5_64", "30+66+84+61"), ["encode1/conv2", "encode4/conv2", "decode2/conv1"])
        with self.assertRaisesRegex(board.InputError, "is not of 370 modules"):
            torchgpipe.starts_of("resnet101", "100+100")

    def test_a_rate_is_the_mean_of_the_first_and_the_last_token(self):
        row = "LLaMA 3,3090,2,,llama 8B F16,14.96,8.03,tg,512,50.0,0.1,b"
        result, questions = self.asked(llama_cpp.score_llama_bench_decode, "speed", self.SPEED, [row], step_time_us=21000.0)
        self.assertEqual([q["options"]["context"] for q in questions], [0, 511, 0, 511])
        self.assertEqual(questions[0]["starts"], ["layer_17"])
        self.assertEqual(questions[0]["device"], {"base": "rtx_3090_llamacpp", "launch": "6.13 us"})  # 5.22 + 0.91
        self.assertNotIn("0.9,", str(questions[2]["device"]["gemv"]))  # a 3090's own share is left out
        # Ampere: (0.9 + 0.893) / 2, of which ECC leaves 15 of 16.
        self.assertAlmostEqual(llama_cpp.of_others("A40")["gemv"]["fp16"], 0.8965 * 15 / 16)
        self.assertAlmostEqual(result.rows[0].measured, 20000.0)
        self.assertAlmostEqual(result.rows[0].error(), 0.05)
        self.assertAlmostEqual(result.left_out["mean"], 0.05)

    def test_later_micro_batches_of_a_prompt_are_slower_as_on_one_gpu(self):
        # One GPU: 512 tokens in 0.1 s, 1024 in 0.21: the second takes a tenth more. No hop: 4000 Ada's row of 512 is told.
        rows = [f"LLaMA 3,4000_Ada,{n},,llama 8B F16,14.96,8.03,pp,{t},{rate},0.1,b"
                for n, t, rate in ((1, 512, 5120.0), (1, 1024, 1024 / 0.21), (4, 1024, 8000.0))]
        with tempfile.TemporaryDirectory() as folder:
            here, llama_cpp.HERE = llama_cpp.HERE, folder
            os.makedirs(os.path.join(folder, "data/measured/llama_bench"))
            with open(os.path.join(folder, "data/measured/llama_bench/speed.csv"), "w", encoding="utf-8") as file:
                file.write(self.SPEED)
            result, questions = self.asked(llama_cpp.score_llama_bench_prefill, "speed", self.SPEED, rows,
                                           step_time_us=128000.0)
            llama_cpp.HERE = here
        self.assertEqual(len(result.skipped), 2)
        self.assertEqual(questions[0]["sums"], ["100000.000 us", "110000.000 us"])
        self.assertEqual((questions[0]["prompt"], questions[0]["pass_tokens"], questions[0]["starts"]), (1024, 512, ["layer_9", "layer_17", "layer_25"]))
        self.assertAlmostEqual(result.rows[0].simulated / result.rows[0].measured, 1.0)  # 1024 tokens in 0.128 s

    def test_buffers_and_what_fits(self):
        # 8B, 8192 tokens, 512 at a time: 4 x 512 x 8192 x 33 + 16 x 512 x 4096 B; on several GPUs x 36 and 32.
        self.assertEqual(llama_cpp.buffer_bytes("8B", 8192, 1), 560 * 2**20)
        self.assertEqual(llama_cpp.buffer_bytes("8B", 8192, 4), 640 * 2**20)
        header = "family,gpu,gpus,model,n_ctx,n_batch,n_ubatch,device,what,mib\n"
        memory = [[4617396224 + 128256 * 4096 * 144 // 256, 2**30, 0]]
        result, _ = self.asked(llama_cpp.score_llama_bench_buffers, "memory", header,
                               [f"LLaMA 3,3070,1,8B-v3/ggml-model-Q4_K_M.gguf,8192,2048,512,{device},{what},{mib}"
                                for device, what, mib in (("CUDA0", "weights", 4403.49), ("CUDA0", "KV", 1024.0),
                                                          ("CUDA0", "compute", 560.0), ("CPU", "weights", 281.81))],
                               memory=memory)
        self.assertEqual(len(result.skipped), 1)
        for row in result.rows:
            self.assertLess(abs(row.error()), 1e-5)
        header = "machine,gib,gpus,model,tokens,ran\n"
        result, _ = self.asked(llama_cpp.score_llama_bench_verdicts, "verdicts", header,
                               ["3070,8,1,8B Q4_K_M,1024,1", "3070,,1,8B Q4_K_M,pp8192,1", "3070,,1,8B Q4_K_M,tg8192,0"],
                               memory=memory)
        # 8192 MiB - 640: 4403 + 1024 + 560 fit, + 256 of a running prompt too: what is said to have run out is wrong.
        self.assertEqual([row.simulated for row in result.rows], [1.0, 1.0, 0.0])


if __name__ == "__main__":
    unittest.main()
