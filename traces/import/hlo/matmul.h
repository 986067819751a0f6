/// Flops of matmuls, convolutions and window reductions, from the attributes of instructions.
#pragma once
#include "traces/import/hlo/module.h"

namespace baechi::hlo {

/// Whether the instruction is a matmul or a library call of one; a convolution or a library call of
/// one.
bool is_matmul(const Instruction& instruction);
bool is_convolution(const Instruction& instruction);

/// Whether the custom-call is a sharding annotation ("Sharding"), which runs nothing.
bool is_annotation(const Instruction& instruction);

/// Bytes of the scratch buffer of a cuBLAS or cuDNN call: its last result, if that is an array of
/// bytes; else 0.
std::int64_t scratch_bytes(const Instruction& instruction);

/// 2 x elements of the result x contracted elements. 0 if `left` is null.
std::int64_t matmul_flops(const Instruction& matmul, const Shape* left);

/// 2 x elements of the result x filter elements per output feature. Padding is counted; zeros
/// inserted by input dilation (`lhs_dilate`) are not. cuDNN's gradients carry the attributes of
/// their forward convolution, and have its flops. 0 if an operand is null.
std::int64_t convolution_flops(const Instruction& conv, const Shape* left, const Shape* right);

/// Elements of the instruction's window; 1 if it has none.
std::int64_t window_elements(const Instruction& instruction);

}  // namespace baechi::hlo
