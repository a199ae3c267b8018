; Edge strength by the Sobel operator, in LLVM IR.
;
;     sobel(src: float32[height, width], dst: float32[height, width])
;
; With the eight neighbours of a pixel named
;
;     nw  n  ne        gx = (ne + 2 e + se) - (nw + 2 w + sw)
;     w   .  e         gy = (sw + 2 s + se) - (nw + 2 n + ne)
;     sw  s  se        dst = sqrt(gx^2 + gy^2)
;
; Pixels beyond the border have the value of the nearest border pixel, as in
; numpy.hypot(scipy.ndimage.sobel(src, 1, mode="nearest"), scipy.ndimage.sobel(src, 0, mode="nearest")).
;
; The module names no target: build.rs compiles it for the one that rustc builds for. @sobel_row is written so that
; LLVM vectorizes it: one counted loop with one exit, rows that do not alias, no call that stays a call.

; An argument or a result: type index, length of a small string, payload.
%Any = type { i32, i32, ptr }
; DLTensor: data, device {type, id}, ndim, dtype {code, bits, lanes}, shape, strides, byte offset.
%Tensor = type { ptr, { i32, i32 }, i32, i32, ptr, ptr, i64 }

@TypeError = private unnamed_addr constant [10 x i8] c"TypeError\00"
@ValueError = private unnamed_addr constant [11 x i8] c"ValueError\00"
@src = private unnamed_addr constant [4 x i8] c"src\00"
@dst = private unnamed_addr constant [4 x i8] c"dst\00"
@wrong_count = private unnamed_addr constant [94 x i8] c"sobel(src: float32[height, width], dst: float32[height, width]): expected 2 arguments, got %d\00"
@wrong_argument = private unnamed_addr constant [156 x i8] c"sobel(src: float32[height, width], dst: float32[height, width]): argument '%s': expected a contiguous, aligned float32 tensor of 2 dimensions in CPU memory\00"
@wrong_shape = private unnamed_addr constant [106 x i8] c"sobel(src: float32[height, width], dst: float32[height, width]): argument '%s': expected the shape of src\00"
@overlap = private unnamed_addr constant [128 x i8] c"sobel(src: float32[height, width], dst: float32[height, width]): argument '%s': overlaps src; give the result memory of its own\00"

declare i32 @kernpack_raise(ptr, ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare float @llvm.sqrt.f32(float)

; Edge strength by the Sobel operator: `dst` gets the length of the gradient of `src` in each pixel.
;
; kernpack: sobel(src: Tensor[float32], dst: mut Tensor[float32]) -> None
define i32 @__tvm_ffi_sobel(ptr %self, ptr %args, i32 %num_args, ptr %result) {
count:
  %two = icmp eq i32 %num_args, 2
  br i1 %two, label %check_src, label %bad_count

check_src:
  %src = call ptr @matrix_of(ptr %args)
  %src_good = icmp ne ptr %src, null
  br i1 %src_good, label %check_dst, label %bad_src

check_dst:
  %dst_arg = getelementptr inbounds %Any, ptr %args, i64 1
  %dst = call ptr @matrix_of(ptr %dst_arg)
  %dst_good = icmp ne ptr %dst, null
  br i1 %dst_good, label %check_shape, label %bad_dst

check_shape:
  %height = call i64 @extent(ptr %src, i64 0)
  %width = call i64 @extent(ptr %src, i64 1)
  %dst_height = call i64 @extent(ptr %dst, i64 0)
  %dst_width = call i64 @extent(ptr %dst, i64 1)
  %same_height = icmp eq i64 %height, %dst_height
  %same_width = icmp eq i64 %width, %dst_width
  %same_shape = and i1 %same_height, %same_width
  br i1 %same_shape, label %check_empty, label %bad_shape

check_empty:
  %pixels = mul nuw nsw i64 %height, %width
  %empty = icmp eq i64 %pixels, 0
  br i1 %empty, label %done, label %check_overlap

check_overlap:
  %from = call ptr @elements(ptr %src)
  %to = call ptr @elements(ptr %dst)
  %from_end = getelementptr inbounds float, ptr %from, i64 %pixels
  %to_end = getelementptr inbounds float, ptr %to, i64 %pixels
  %before = icmp ule ptr %from_end, %to
  %after = icmp ule ptr %to_end, %from
  %apart = or i1 %before, %after
  br i1 %apart, label %rows, label %bad_overlap

rows:
  %last_row = sub nsw i64 %height, 1
  br label %row

row:
  %y = phi i64 [ 0, %rows ], [ %y_next, %row ]
  %y_next = add nuw nsw i64 %y, 1
  %first = icmp eq i64 %y, 0
  %last = icmp eq i64 %y, %last_row
  %y_minus_1 = sub nsw i64 %y, 1
  %y_above = select i1 %first, i64 0, i64 %y_minus_1
  %y_below = select i1 %last, i64 %y, i64 %y_next
  %at_above = mul nsw i64 %y_above, %width
  %at = mul nsw i64 %y, %width
  %at_below = mul nsw i64 %y_below, %width
  %above = getelementptr inbounds float, ptr %from, i64 %at_above
  %here = getelementptr inbounds float, ptr %from, i64 %at
  %below = getelementptr inbounds float, ptr %from, i64 %at_below
  %out = getelementptr inbounds float, ptr %to, i64 %at
  call void @sobel_row(ptr %above, ptr %here, ptr %below, ptr %out, i64 %width)
  br i1 %last, label %done, label %row

done:
  ret i32 0

bad_count:
  %count_error = call i32 @raise_count(i32 %num_args)
  ret i32 %count_error

bad_src:
  %src_error = call i32 @raise(ptr @TypeError, ptr @wrong_argument, ptr @src)
  ret i32 %src_error

bad_dst:
  %dst_error = call i32 @raise(ptr @TypeError, ptr @wrong_argument, ptr @dst)
  ret i32 %dst_error

bad_shape:
  %shape_error = call i32 @raise(ptr @ValueError, ptr @wrong_shape, ptr @dst)
  ret i32 %shape_error

bad_overlap:
  %overlap_error = call i32 @raise(ptr @ValueError, ptr @overlap, ptr @dst)
  ret i32 %overlap_error
}

; One row of the result. `above` and `below` are the neighbour rows of `here`, or `here` itself at the border.
define internal void @sobel_row(ptr noalias readonly %above, ptr noalias readonly %here, ptr noalias readonly %below,
                                ptr noalias %out, i64 %width) {
entry:
  %last = sub nsw i64 %width, 1
  %one_column = icmp eq i64 %last, 0
  %second = select i1 %one_column, i64 0, i64 1
  %last_but_one = sub nsw i64 %last, %second
  %left_border = call float @sobel_pixel(ptr %above, ptr %here, ptr %below, i64 0, i64 0, i64 %second)
  store float %left_border, ptr %out, align 4
  %right_border = call float @sobel_pixel(ptr %above, ptr %here, ptr %below, i64 %last_but_one, i64 %last, i64 %last)
  %right_out = getelementptr inbounds float, ptr %out, i64 %last
  store float %right_border, ptr %right_out, align 4
  %interior = icmp sgt i64 %last, 1
  br i1 %interior, label %pixel, label %done

pixel:
  %x = phi i64 [ 1, %entry ], [ %x_next, %pixel ]
  %x_before = sub nuw nsw i64 %x, 1
  %x_next = add nuw nsw i64 %x, 1
  %strength = call float @sobel_pixel(ptr %above, ptr %here, ptr %below, i64 %x_before, i64 %x, i64 %x_next)
  %x_out = getelementptr inbounds float, ptr %out, i64 %x
  store float %strength, ptr %x_out, align 4
  %more = icmp slt i64 %x_next, %last
  br i1 %more, label %pixel, label %done

done:
  ret void
}

; The edge strength at column %x, whose neighbour columns are %west and %east.
define internal float @sobel_pixel(ptr %above, ptr %here, ptr %below, i64 %west, i64 %x, i64 %east) alwaysinline {
  %nw_at = getelementptr inbounds float, ptr %above, i64 %west
  %n_at = getelementptr inbounds float, ptr %above, i64 %x
  %ne_at = getelementptr inbounds float, ptr %above, i64 %east
  %w_at = getelementptr inbounds float, ptr %here, i64 %west
  %e_at = getelementptr inbounds float, ptr %here, i64 %east
  %sw_at = getelementptr inbounds float, ptr %below, i64 %west
  %s_at = getelementptr inbounds float, ptr %below, i64 %x
  %se_at = getelementptr inbounds float, ptr %below, i64 %east
  %nw = load float, ptr %nw_at, align 4
  %n = load float, ptr %n_at, align 4
  %ne = load float, ptr %ne_at, align 4
  %w = load float, ptr %w_at, align 4
  %e = load float, ptr %e_at, align 4
  %sw = load float, ptr %sw_at, align 4
  %s = load float, ptr %s_at, align 4
  %se = load float, ptr %se_at, align 4

  ; gx = (ne - nw) + 2 (e - w) + (se - sw)
  %east_above = fsub float %ne, %nw
  %east_here = fsub float %e, %w
  %east_below = fsub float %se, %sw
  %east_twice = fadd float %east_here, %east_here
  %east_sum = fadd float %east_above, %east_twice
  %gx = fadd float %east_sum, %east_below

  ; gy = (sw - nw) + 2 (s - n) + (se - ne)
  %south_west = fsub float %sw, %nw
  %south_here = fsub float %s, %n
  %south_east = fsub float %se, %ne
  %south_twice = fadd float %south_here, %south_here
  %south_sum = fadd float %south_west, %south_twice
  %gy = fadd float %south_sum, %south_east

  %gx_squared = fmul float %gx, %gx
  %gy_squared = fmul float %gy, %gy
  %squared = fadd float %gx_squared, %gy_squared
  %strength = call float @llvm.sqrt.f32(float %squared)
  ret float %strength
}

; The DLTensor behind an argument if it is a contiguous, aligned float32 matrix in CPU memory, else null.
; Hosts pass a tensor object (type index 70, the DLTensor follows its 24 byte header) or a bare DLTensor pointer (7).
define internal ptr @matrix_of(ptr %argument) {
  %type_index = load i32, ptr %argument, align 8
  %payload_at = getelementptr inbounds %Any, ptr %argument, i64 0, i32 2
  switch i32 %type_index, label %no [ i32 70, label %object
                                      i32 7, label %pointer ]

object:
  %object_ptr = load ptr, ptr %payload_at, align 8
  %behind_header = getelementptr inbounds i8, ptr %object_ptr, i64 24
  br label %kind

pointer:
  %tensor_ptr = load ptr, ptr %payload_at, align 8
  br label %kind

kind:
  %tensor = phi ptr [ %behind_header, %object ], [ %tensor_ptr, %pointer ]
  %device_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 1, i32 0
  %device = load i32, ptr %device_at, align 8
  %on_host = icmp eq i32 %device, 1
  %ndim_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 2
  %ndim = load i32, ptr %ndim_at, align 8
  %matrix = icmp eq i32 %ndim, 2
  ; The four bytes of a data type as one number: code 2 (float), 32 bits, 1 lane (two bytes) = 0x00012002.
  %dtype_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 3
  %dtype = load i32, ptr %dtype_at, align 4
  %float32 = icmp eq i32 %dtype, 73730
  %elements = call ptr @elements(ptr %tensor)
  %address = ptrtoint ptr %elements to i64
  %misplaced = and i64 %address, 3
  %aligned = icmp eq i64 %misplaced, 0
  %host_matrix = and i1 %on_host, %matrix
  %float_matrix = and i1 %host_matrix, %float32
  %good = and i1 %float_matrix, %aligned
  br i1 %good, label %layout, label %no

layout:
  %strides_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 5
  %strides = load ptr, ptr %strides_at, align 8
  %row_major = icmp eq ptr %strides, null
  br i1 %row_major, label %yes, label %strided

strided:
  ; The stride of a dimension of at most one element is never used, so it may be anything.
  %height = call i64 @extent(ptr %tensor, i64 0)
  %width = call i64 @extent(ptr %tensor, i64 1)
  %row_stride = load i64, ptr %strides, align 8
  %column_stride_at = getelementptr inbounds i64, ptr %strides, i64 1
  %column_stride = load i64, ptr %column_stride_at, align 8
  %rows_adjoin = icmp eq i64 %row_stride, %width
  %columns_adjoin = icmp eq i64 %column_stride, 1
  %one_row = icmp sle i64 %height, 1
  %one_column = icmp sle i64 %width, 1
  %no_pixels_y = icmp eq i64 %height, 0
  %no_pixels_x = icmp eq i64 %width, 0
  %no_pixels = or i1 %no_pixels_y, %no_pixels_x
  %rows_good = or i1 %rows_adjoin, %one_row
  %columns_good = or i1 %columns_adjoin, %one_column
  %both_good = and i1 %rows_good, %columns_good
  %contiguous = or i1 %both_good, %no_pixels
  br i1 %contiguous, label %yes, label %no

yes:
  ret ptr %tensor

no:
  ret ptr null
}

; shape[dimension] of a tensor.
define internal i64 @extent(ptr %tensor, i64 %dimension) {
  %shape_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 4
  %shape = load ptr, ptr %shape_at, align 8
  %extent_at = getelementptr inbounds i64, ptr %shape, i64 %dimension
  %extent = load i64, ptr %extent_at, align 8
  ret i64 %extent
}

; The first element of a tensor: data + byte_offset.
define internal ptr @elements(ptr %tensor) {
  %data = load ptr, ptr %tensor, align 8
  %offset_at = getelementptr inbounds %Tensor, ptr %tensor, i64 0, i32 6
  %offset = load i64, ptr %offset_at, align 8
  %first = getelementptr inbounds i8, ptr %data, i64 %offset
  ret ptr %first
}

; Raises %kind with a message about the argument %name. Always returns -1.
define internal i32 @raise(ptr %kind, ptr %format, ptr %name) cold noinline {
  %message = alloca [256 x i8], align 16
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %message, i64 256, ptr %format, ptr %name)
  %status = call i32 @kernpack_raise(ptr %kind, ptr %message)
  ret i32 %status
}

define internal i32 @raise_count(i32 %num_args) cold noinline {
  %message = alloca [256 x i8], align 16
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %message, i64 256, ptr @wrong_count, i32 %num_args)
  %status = call i32 @kernpack_raise(ptr @TypeError, ptr %message)
  ret i32 %status
}
