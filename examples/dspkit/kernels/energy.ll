; The energy of a signal: the sum of the squares of its samples.
;
;     energy(samples: float32[n])
;
; The module names no target: build.rs compiles it for the one that rustc builds for.

; An argument or a result: type index, length of a small string, payload.
%Any = type { i32, i32, ptr }
; DLTensor: data, device {type, id}, ndim, dtype {code, bits, lanes}, shape, strides, byte offset.
%Tensor = type { ptr, { i32, i32 }, i32, i32, ptr, ptr, i64 }

@TypeError = private unnamed_addr constant [10 x i8] c"TypeError\00"
@expected = private unnamed_addr constant [79 x i8] c"energy(samples: float32[n]): expected one contiguous float32 vector on the CPU\00"

declare i32 @kernpack_raise(ptr, ptr)

; The sum of the squares of the samples.
;
; kernpack: energy(samples: Tensor[float32]) -> float
define i32 @__tvm_ffi_energy(ptr %self, ptr %args, i32 %num_args, ptr %result) {
entry:
  %one = icmp eq i32 %num_args, 1
  br i1 %one, label %kind, label %bad

kind:
  %type_index = load i32, ptr %args, align 8
  %payload_at = getelementptr inbounds %Any, ptr %args, i64 0, i32 2
  ; Hosts pass a tensor object (70, the DLTensor follows its 24 byte header) or a pointer to a DLTensor (7).
  switch i32 %type_index, label %bad [ i32 70, label %object
                                       i32 7, label %pointer ]

object:
  %object_ptr = load ptr, ptr %payload_at, align 8
  %behind_header = getelementptr inbounds i8, ptr %object_ptr, i64 24
  br label %layout

pointer:
  %tensor_ptr = load ptr, ptr %payload_at, align 8
  br label %layout

layout:
  %tensor = phi ptr [ %behind_header, %object ], [ %tensor_ptr, %pointer ]
  %device_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 1, i32 0
  %device = load i32, ptr %device_at, align 8
  %on_host = icmp eq i32 %device, 1
  %ndim_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 2
  %ndim = load i32, ptr %ndim_at, align 8
  %vector = icmp eq i32 %ndim, 1
  ; Code 2 (float), 32 bits, 1 lane.
  %dtype_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 3
  %dtype = load i32, ptr %dtype_at, align 4
  %float32 = icmp eq i32 %dtype, 73730
  %host_vector = and i1 %on_host, %vector
  %good = and i1 %host_vector, %float32
  br i1 %good, label %stride, label %bad

stride:
  %shape_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 4
  %shape = load ptr, ptr %shape_at, align 8
  %n = load i64, ptr %shape, align 8
  %strides_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 5
  %strides = load ptr, ptr %strides_at, align 8
  %row_major = icmp eq ptr %strides, null
  br i1 %row_major, label %first, label %strided

strided:
  %step = load i64, ptr %strides, align 8
  %adjoin = icmp eq i64 %step, 1
  %few = icmp sle i64 %n, 1
  %contiguous = or i1 %adjoin, %few
  br i1 %contiguous, label %first, label %bad

first:
  %data = load ptr, ptr %tensor, align 8
  %offset_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 6
  %offset = load i64, ptr %offset_at, align 8
  %samples = getelementptr inbounds i8, ptr %data, i64 %offset
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %sample, label %done

sample:
  %i = phi i64 [ 0, %first ], [ %next, %sample ]
  %sum = phi double [ 0.0, %first ], [ %more, %sample ]
  %at = getelementptr inbounds float, ptr %samples, i64 %i
  %value = load float, ptr %at, align 1
  %wide = fpext float %value to double
  %square = fmul double %wide, %wide
  %more = fadd double %sum, %square
  %next = add nuw nsw i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %sample, label %done

done:
  %total = phi double [ 0.0, %first ], [ %more, %sample ]
  store i32 3, ptr %result, align 8
  %result_at = getelementptr inbounds %Any, ptr %result, i64 0, i32 2
  store double %total, ptr %result_at, align 8
  ret i32 0

bad:
  %status = call i32 @kernpack_raise(ptr @TypeError, ptr @expected)
  ret i32 %status
}
