define ptx_kernel void @scale_cuda(ptr %x, float %factor) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %at = getelementptr float, ptr %x, i32 %thread
  %value = load float, ptr %at
  %scaled = fmul float %value, %factor
  store float %scaled, ptr %at
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
