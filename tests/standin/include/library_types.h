#pragma once
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16F = 2 };
