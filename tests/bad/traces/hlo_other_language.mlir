module @m {
  func.func @f(%a: i32, %b: f32) -> f32 {
    %0 = arith.sitofp %a : i32 to f32
    %1 = arith.mulf %0, %b : f32
    %2 = stablehlo.negate %1 : f32
    return %2 : f32
  }
}
