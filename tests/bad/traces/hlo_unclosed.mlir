module @m {
  func.func @main(%a: tensor<f32>) -> tensor<f32> {
