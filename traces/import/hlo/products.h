/// Flops of products and sliding windows, from the attributes that state their shapes.
#pragma once
#include "traces/import/hlo/module.h"

namespace baechi::hlo {

/// Whether the instruction is a product of matrices, or calls a library's.
bool is_product(const Instruction& instruction);
/// The same of a convolution.
bool is_convolution(const Instruction& instruction);

/// Whether the instruction calls no program, but tells the compiler how its operand is divided
/// among devices: "Sharding".
bool is_annotation(const Instruction& instruction);

/// Bytes of the scratch memory of a call of cuBLAS or cuDNN: its last result, a list of bytes
/// behind what it computes. 0 if it has none.
std::int64_t scratch_bytes(const Instruction& instruction);

/// Two per element of the result and contracted element. 0 without `left`.
std::int64_t product_flops(const Instruction& product, const Shape* left);

/// Two per element of the result and of the filter that makes one output feature; zeros that the
/// dilation of the input puts between its elements (`lhs_dilate`) are not counted. cuDNN's
/// gradients have the attributes of their forward convolution, and count as many as that. 0 without
/// operands. Padding counts.
std::int64_t convolution_flops(const Instruction& conv, const Shape* left, const Shape* right);

/// Elements of the window that the instruction slides; 1 if it slides none.
std::int64_t window_elements(const Instruction& instruction);

/// The number format in which elements of the type are multiplied: 8-bit floats in fp16, the
/// narrowest format of devices here.
Precision precision_of(const std::string& type);

}  // namespace baechi::hlo
